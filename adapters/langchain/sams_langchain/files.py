"""`SamsMemoryFiles`: governed memory as the files under a deep agent's `/memories/`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Literal, TypeVar

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)

from sams_core.ambient import hop, off_loop
from sams_core.errors import InvalidArguments, SamsError
from sams_core.govern import Bound
from sams_core.session import AgentSession
from sams_langchain.filed import Filed
from sams_langchain.govern import Govern, rejoined
from sams_langchain.observe import hooked
from sams_langchain.tools import session_here

R = TypeVar("R")


class SamsMemoryFiles(BackendProtocol):
    """Serve a session's memory as text files; what is written waits for the owner's review.

    `CompositeBackend(default=StateBackend(), routes={"/memories/": SamsMemoryFiles(session)})`.
    `session_or_resolver` is the session, or a callable that returns it from LangGraph's `Runtime`
    (outside a graph: from the run's config); without it the session of the block around the call is
    used. `scope` is "assigned", "org" (read only) or "run" (the session's own notes, stored at once).

    Nothing raises: what is refused is a result with the rule. A queued text is reported as an error,
    the only field whose words deepagents shows to a model; the family reads its own text until it is
    decided. A file that exists is replaced (`write`) only by a run that has read the version that is
    there, in this process; edits are made one after the other. To an unmarked session a labelled file
    isn't listed or searched, and reading it marks. Refused: deleting (`owner-only`), paths of another
    form (`path`), what isn't text, and everything without a session (`no-session`).
    """

    def __init__(
        self,
        session_or_resolver: Bound = None,
        /,
        *,
        scope: Literal["org", "assigned", "run"] = "assigned",
    ) -> None:
        if scope not in ("org", "assigned", "run"):
            raise InvalidArguments("scope: org, assigned or run")
        self._governed = Govern(session_or_resolver)
        self._files = Filed(scope)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return lines of a file; a labelled one marks the session first."""
        return self._do(lambda s: self._files.read(s, file_path, offset, limit), ReadResult)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return lines of a file; a labelled one marks the session first."""
        return await self._ado(
            lambda s: self._files.read(s, file_path, offset, limit), ReadResult, short=True
        )

    def write(self, file_path: str, content: str) -> WriteResult:
        """Queue a whole file; one that exists must have been read as it is now."""
        return self._do(
            lambda s: self._files.write(s, file_path, content), WriteResult, writes=True
        )

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Queue a whole file; one that exists must have been read as it is now."""
        return await self._ado(
            lambda s: self._files.write(s, file_path, content), WriteResult, writes=True
        )

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Queue a file in which a text is replaced; `old_string` must be there as it is now."""
        return self._do(
            lambda s: self._files.edit(s, file_path, old_string, new_string, replace_all),
            EditResult,
            writes=True,
        )

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Queue a file in which a text is replaced; `old_string` must be there as it is now."""
        return await self._ado(
            lambda s: self._files.edit(s, file_path, old_string, new_string, replace_all),
            EditResult,
            writes=True,
        )

    def delete(self, file_path: str) -> DeleteResult:
        """Refuse: deletion is the owner's."""
        return DeleteResult(error="owner-only: deletion is the owner's; nothing was deleted")

    async def adelete(self, file_path: str) -> DeleteResult:
        """Refuse: deletion is the owner's."""
        return self.delete(file_path)

    def ls(self, path: str) -> LsResult:
        """List the files and folders that are in a folder."""
        return self._do(lambda s: self._files.ls(s, path), LsResult)

    async def als(self, path: str) -> LsResult:
        """List the files and folders that are in a folder."""
        return await self._ado(lambda s: self._files.ls(s, path), LsResult)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by a pattern of their paths."""
        return self._do(lambda s: self._files.glob(s, pattern, path), GlobResult)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by a pattern of their paths."""
        return await self._ado(lambda s: self._files.glob(s, pattern, path), GlobResult)

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        """Find lines that contain a text, literally; at most 1,000 in 20 million characters."""
        return self._do(lambda s: self._files.grep(s, pattern, path, glob, max_count), GrepResult)

    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        """Find lines that contain a text, literally; at most 1,000 in 20 million characters."""
        return await self._ado(
            lambda s: self._files.grep(s, pattern, path, glob, max_count), GrepResult
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write texts in UTF-8; anything else is refused."""
        return [
            self._do(
                partial(self._files.upload, path, data),
                partial(FileUploadResponse, path),
                writes=True,
            )
            for path, data in files
        ]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write texts in UTF-8; anything else is refused."""
        return [
            await self._ado(
                partial(self._files.upload, path, data),
                partial(FileUploadResponse, path),
                writes=True,
            )
            for path, data in files
        ]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files; a labelled one marks the session first."""
        return [
            self._do(partial(self._files.download, path), partial(FileDownloadResponse, path))
            for path in paths
        ]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files; a labelled one marks the session first."""
        return [
            await self._ado(
                partial(self._files.download, path), partial(FileDownloadResponse, path)
            )
            for path in paths
        ]

    def _do(
        self,
        work: Callable[[AgentSession], R],
        refused: Callable[..., R],
        *,
        writes: bool = False,
    ) -> R:
        try:
            with rejoined():
                session = session_here(self._governed)
                with nullcontext() if writes else hooked(session):
                    return work(session)
        except SamsError as error:
            return refused(error=_told(error))

    async def _ado(
        self,
        work: Callable[[AgentSession], R],
        refused: Callable[..., R],
        *,
        short: bool = False,
        writes: bool = False,
    ) -> R:
        try:
            with rejoined():
                session = session_here(self._governed)
                with nullcontext() if writes else hooked(session):
                    if short:
                        return await off_loop(session.backend, partial(work, session))
                    return await hop(partial(work, session))
        except SamsError as error:
            return refused(error=_told(error))


def _told(error: SamsError) -> str:
    return f"{error.rule}: {error}"
