"""SAMS: governed memory for AI agents. Who may write what, what they had read, who reviewed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sams_core.ambient import current_session as current_session
from sams_core.backend import Backend as Backend
from sams_core.backends import open_backend as open_backend
from sams_core.backends.memory import MemoryBackend as MemoryBackend
from sams_core.backends.sqlite import SQLiteBackend as SQLiteBackend
from sams_core.dream import DreamerSession as DreamerSession
from sams_core.errors import InvalidArguments as InvalidArguments
from sams_core.errors import LimitExceeded as LimitExceeded
from sams_core.errors import NoSession as NoSession
from sams_core.errors import NotFound as NotFound
from sams_core.errors import PermissionDenied as PermissionDenied
from sams_core.errors import ReviewMismatch as ReviewMismatch
from sams_core.errors import SamsError as SamsError
from sams_core.errors import ScopeError as ScopeError
from sams_core.errors import SessionClosed as SessionClosed
from sams_core.errors import StoreFailed as StoreFailed
from sams_core.errors import StoreNeedsOwner as StoreNeedsOwner
from sams_core.errors import VersionConflict as VersionConflict
from sams_core.flags import review_flags as review_flags
from sams_core.limits import Limits as Limits
from sams_core.records import Change as Change
from sams_core.records import Entry as Entry
from sams_core.records import Flag as Flag
from sams_core.records import Listing as Listing
from sams_core.records import Page as Page
from sams_core.records import Receipt as Receipt
from sams_core.records import Snapshot as Snapshot
from sams_core.records import Source as Source
from sams_core.redaction import Redacted as Redacted
from sams_core.redaction import TextPolicy as TextPolicy
from sams_core.redaction import load_policy as load_policy
from sams_core.redaction import redact as redact
from sams_core.review import Owner as Owner
from sams_core.session import AgentSession as AgentSession
from sams_core.taint import tainting as tainting
from sams_core.tools import TOOL_NAMES as TOOL_NAMES

if TYPE_CHECKING:
    from sams_core.backends.postgres import PostgresBackend as PostgresBackend


def __getattr__(name: str) -> Any:
    if name == "PostgresBackend":  # its driver is an extra and takes long to import
        from sams_core.backends.postgres import PostgresBackend

        return PostgresBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
