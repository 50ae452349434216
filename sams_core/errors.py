"""The refusals: one tree, each leaf naming the rule it enforces and carrying codes and numbers."""

from __future__ import annotations


class SamsError(Exception):
    """Base of every refusal.

    `rule` is a short fixed code, the same in every language and version. Messages are written in
    this package: they hold codes and numbers and never text that was stored or submitted.
    """

    rule: str = "refused"

    def __init__(self, message: str, *, rule: str | None = None) -> None:
        super().__init__(message)
        if rule is not None:
            self.rule = rule

    def to_dict(self) -> dict[str, object]:
        """Return what a model may be shown."""
        return {"rule": self.rule, "message": str(self)}


class PermissionDenied(SamsError):
    """The caller may not do this, whoever asks."""

    rule = "permission-denied"


class ScopeError(PermissionDenied):
    """The scope is malformed or isn't one that this caller may use."""

    rule = "foreign-scope"


class VersionConflict(SamsError):
    """Somebody else's version is there; 0 stands for "no such entry"."""

    rule = "version-conflict"

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"version conflict: expected {expected or 'no entry'}, found {found or 'no entry'}; "
            "read again and decide on what is there now"
        )
        self.expected, self.found = expected, found


class ReviewMismatch(SamsError):
    """What would be served isn't what was reviewed; both are digests."""

    rule = "changed-since-review"

    def __init__(self, expected: str, found: str) -> None:
        super().__init__("changed since review: look at it again and use the digest shown then")
        self.expected, self.found = expected, found


class NotFound(SamsError):
    """Nothing of that name is visible to this caller."""

    rule = "not-found"


class LimitExceeded(SamsError):
    """A size or a count is above its limit; see `Limits`."""

    rule = "limit"

    def __init__(self, what: str, limit: int, found: int | None = None) -> None:
        amount = "" if found is None else f", found {found}"
        super().__init__(f"{what}: at most {limit}{amount}")
        self.what, self.limit, self.found = what, limit, found


class InvalidArguments(SamsError):
    """An argument doesn't have the form that is asked for."""

    rule = "invalid-arguments"


class NoSession(SamsError):
    """No agent session is bound where one is needed."""

    rule = "no-session"


class SessionClosed(SamsError):
    """A mark could not be recorded, so this process may not use the session until it is."""

    rule = "session-closed"


class StoreNeedsOwner(SamsError):
    """An owner's process died in a transaction; the next owner verb completes the recovery."""

    rule = "store-needs-owner"


class StoreFailed(SamsError):
    """The storage refused (full, read-only, damaged); nothing of this call was stored.

    With rule `store-unreachable` the answer was lost, so it may have been stored: repeat the call.
    """

    rule = "store-failed"
