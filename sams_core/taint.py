"""Marks: the family that shares them, and the wrappers that make them before outsiders' text flows."""

from __future__ import annotations

import functools
import importlib
import inspect
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from sams_core.ambient import current_session, off_loop
from sams_core.backend import Backend, WouldBlock, is_impatient
from sams_core.errors import NoSession, PermissionDenied, SamsError, SessionClosed
from sams_core.locks import ForkSafeLock
from sams_core.records import SessionKey, Source, now
from sams_core.redaction import Cuts, redact
from sams_core.screen import cut

if TYPE_CHECKING:
    from sams_core.session import AgentSession

T = TypeVar("T")
_CLIP = 200
_ASKED = 1_000
_READ = 20_000  # characters of a source's text that are looked at


def make_source(kind: str, name: str, origin: str | None = None) -> Source:
    """Return a source whose texts are one line and without what the shipped rules cut.

    `Family.mark` cuts what the store's policy adds and clips to 200 characters; before that it could
    cut off half a secret, which no rule knows. Unlike everything else that is stored these texts are
    clipped, never refused: a mark must not fail because of what it says.
    """

    def inert(text: object) -> str:
        whole = str(text)
        line = whole[:_READ].encode("utf-8", "backslashreplace").decode("utf-8")
        words = line.split()
        if len(whole) > _READ:  # the last word may be half a secret, which no rule knows
            words = words[:-1] or words
        return redact(" ".join(words)).text

    return Source(kind, inert(name), None if origin is None else inert(origin), now())


def _kept(source: Source, cuts: Cuts) -> Source:
    """Return a source as the ledger keeps it."""

    def short(text: str) -> str:
        return (cut(text, cuts) if cuts else text)[:_CLIP]

    origin = None if source.origin is None else short(source.origin)
    return replace(source, name=short(source.name), origin=origin)


class Family:
    """The marks of a session and all its children, as one process knows them.

    Only what has been recorded is cached: a mark stays, so knowing of one saves a write, while a
    family without marks is looked up each time. A mark that could not be recorded closes the family
    in this process until it can be.
    """

    def __init__(self, backend: Backend, container: str, name: str) -> None:
        self.backend, self.container, self.name = backend, container, name
        self.cuts = Cuts()
        self._recorded: set[tuple[str, str]] = set()
        self._asked: set[tuple[str, str]] = set()  # what is recorded, as its callers spell it
        self._owed: dict[tuple[str, str], Source] = {}
        self._lock = ForkSafeLock()
        self.kept: dict[str, object] = {}  # what adapters know of it, by their modules

    def mark(self, *sources: Source) -> None:
        """Record sources durably; on failure raise `SessionClosed` and keep the family closed."""
        for source in sources:
            source = _kept(source, self.cuts)
            name = (source.kind, source.name)
            if name not in self._recorded:
                self._owed.setdefault(name, replace(source, first_seen=now()))
                _in_debt.add(self)
        self.settle()

    def mark_named(self, kind: str, name: str, origin: str | None = None) -> None:
        """Record one source; a tool's second call costs next to nothing. Raises as `mark`."""
        if (kind, name) not in self._asked or self._owed:
            self.mark(make_source(kind, name, origin))
            if len(self._asked) < _ASKED and len(name) <= _CLIP:
                self._asked.add((kind, name))

    def settle(self) -> None:
        """Record what is owed; raises `SessionClosed` while that fails."""
        if not self._owed:
            return
        if not self._lock.acquire(blocking=not is_impatient()):
            raise WouldBlock
        try:
            owed = dict(self._owed)
            if owed:
                self.backend.add_sources(self.container, self.name, list(owed.values()))
            self._recorded.update(owed)
            for name in owed:
                del self._owed[name]
            if not self._owed:
                _in_debt.discard(self)
        except SamsError as error:
            raise SessionClosed(
                "a mark could not be recorded; the session is closed in this process until it is"
            ) from error
        finally:
            self._lock.release()

    def sources(self) -> tuple[Source, ...]:
        """Return the recorded marks, and those that are still owed."""
        return self.backend.sources(self.container, self.name) + tuple(self._owed.values())


_families: weakref.WeakValueDictionary[tuple[str, str, str], Family] = weakref.WeakValueDictionary()
_families_lock = ForkSafeLock()
_in_debt: set[Family] = set()  # kept alive: what is owed must not be forgotten with its session


def family(backend: Backend, key: SessionKey, cuts: Cuts) -> Family:
    """Return this process's one object for the family, so that a failed mark closes all of it.

    It cuts what any of its openers asked for.
    """
    name = (backend.location, key.container, key.family)
    with _families_lock:
        found = _families.get(name)
        if found is None:
            found = _families[name] = Family(backend, key.container, key.family)
        found.cuts |= cuts
        return found


def begin_call(bound: AgentSession | None, source: Source) -> AgentSession:
    """Mark for a call that is about to start: the bound session, or whichever is ambient.

    Raises `NoSession` where there is neither, and `PermissionDenied` (rule `foreign-run`) inside
    another family's run, after both families have been marked.
    """
    ambient = current_session()
    target = bound or ambient
    if target is None:
        raise NoSession("a tainting call needs an active session: with session.active(): ...")
    target.family.mark(source)
    check_family(target, ambient)
    return target


def check_family(session: AgentSession, ambient: AgentSession | None) -> None:
    """Refuse a session's use inside another family's run, marking both."""
    if ambient is None or ambient.family is session.family:
        return
    source = make_source("binding", "used inside another session's run")
    try:
        session.family.mark(source)
    finally:  # whether or not that could be recorded
        ambient.family.mark(source)
    raise PermissionDenied("bound to another session than the one at work", rule="foreign-run")


def wrap(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Return `obj` wrapped so that each call marks before it begins; see `AgentSession.tainting`."""
    if isinstance(obj, staticmethod | classmethod):
        return type(obj)(wrap(obj.__func__, bound, reason))
    if isinstance(obj, type) or not callable(obj):
        return _adapted(obj, bound, reason)
    wrapped: T
    if inspect.isroutine(obj) or isinstance(obj, functools.partial):
        wrapped = _wrapped(obj, obj, bound, reason)
    elif _only_callable(type(obj)):
        wrapped = _wrapped(obj, type(obj).__call__, bound, reason)
    else:
        wrapped = _adapted(obj, bound, reason)
    return wrapped


def _only_callable(kind: type) -> bool:
    return not any(not name.startswith("_") for name in dir(kind))


def _wrapped(obj: Any, code: Any, bound: AgentSession | None, reason: str | None) -> Any:
    """Build a function of the same nature; `code` is what decides the nature."""
    plain = obj
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not inspect.isroutine(plain) and _only_callable(type(plain)):
        code = type(plain).__call__
    name = getattr(plain, "__name__", None)
    if not isinstance(name, str):
        name = type(plain).__name__
    wrapper = marking(obj, code, bound, make_source("tool", name if reason is None else reason))
    if inspect.isroutine(plain):
        functools.update_wrapper(wrapper, plain)
    else:
        functools.update_wrapper(wrapper, code)
        wrapper.__doc__ = plain.__doc__
    wrapper.__name__ = name
    with suppress(TypeError, ValueError):  # some built-in functions publish none
        setattr(wrapper, "__signature__", inspect.signature(obj))  # noqa: B010 - unknown to types
    return wrapper


def marking(obj: Any, code: Any, bound: AgentSession | None, source: Source) -> Callable[..., Any]:
    """Return a function that marks and then calls `obj`; `code` says of which nature it is."""
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(code):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            target = await abegin_call(bound, source)
            inner = obj(*args, **kwargs)
            step = inner.asend(None)
            try:
                while True:
                    try:
                        item = await step
                    except StopAsyncIteration:
                        return
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        check_family(target, current_session())
                        step = inner.athrow(error)
                    else:
                        check_family(target, current_session())
                        step = inner.asend(sent)
            finally:
                await inner.aclose()

    elif inspect.iscoroutinefunction(code):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            await abegin_call(bound, source)
            return await obj(*args, **kwargs)

    elif inspect.isgeneratorfunction(code):

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            target = begin_call(bound, source)
            inner = obj(*args, **kwargs)
            step = functools.partial(next, inner)
            try:
                while True:
                    try:
                        item = step()
                    except StopIteration as stop:
                        return stop.value
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        check_family(target, current_session())
                        step = functools.partial(inner.throw, error)
                    else:
                        check_family(target, current_session())
                        step = functools.partial(inner.send, sent)
            finally:
                inner.close()

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin_call(bound, source)
            return obj(*args, **kwargs)

    return wrapper


async def abegin_call(bound: AgentSession | None, source: Source) -> AgentSession:
    """Mark as `begin_call` does; a mark that must wait for a lock waits in a thread."""
    target = bound or current_session()
    if target is None:
        return begin_call(bound, source)
    return await off_loop(target.backend, lambda: begin_call(target, source))


@functools.cache  # looking takes about a millisecond
def _installed(group: str) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.value) for each in entry_points(group=group))


def _adapted(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Let the adapter for the object's framework wrap it; found by entry point, imported on demand."""
    roots = {cls.__module__.partition(".")[0] for cls in type(obj).__mro__}
    for look in (_installed, _installed.__wrapped__):  # it may have been installed since
        words = {word for root, word in look("sams.adapter_roots") if root in roots}
        for word, name in look("sams.adapters"):
            if word in words:
                module = importlib.import_module(name)
                result: T = module.tainting(obj, bound, reason)
                return result
    raise TypeError(
        "tainting() wraps functions, methods, partials and objects whose only public way in is "
        "calling them. For a framework's tool or retriever install its extra "
        "(pip install 'sams-adapters[...]'); otherwise wrap the function that fetches, or call "
        "session.mark_tainted(reason) before the object is used"
    )


def tainting(obj: T, reason: str | None = None) -> T:
    """Wrap `obj` for whichever session is active when it is called; see `AgentSession.tainting`.

    A call outside any session raises `NoSession` before `obj` runs.
    """
    return wrap(obj, None, reason)
