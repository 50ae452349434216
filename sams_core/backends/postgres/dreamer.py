"""The dreaming job's reading: all of it through functions that record what was read."""

from __future__ import annotations

from sams_core.backends.postgres.base import Base, whole
from sams_core.backends.postgres.connect import Connection
from sams_core.backends.postgres.rows import CHANGE, NOTE, entry_from, note_from
from sams_core.records import Change, Entry, Partition

_ENTRY = "path, version, description, content, date, sources, provenance, status, handle"


class DreamerVerbs(Base):
    """See `Backend`: what a dreaming job does besides proposing."""

    def snapshot(
        self, container: str, job: str, partition: Partition
    ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
        """See `Backend.snapshot`."""
        self._need(container, "dreamer")
        values = (container, job, partition == "clean")

        def work(
            db: Connection,
        ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
            def rows(columns: str, function: str) -> list[tuple[object, ...]]:
                sql = f"SELECT {columns} FROM sams.{function}(%s, %s, %s)"  # noqa: S608 - ours
                return db.execute(sql.encode(), values).fetchall()

            entries = [entry_from(container, row) for row in rows(_ENTRY, "snapshot_entries")]
            changes = rows(CHANGE, "snapshot_changes")
            found = rows(f"{_ENTRY}, ended_date, ended_by", "snapshot_bases")
            bases = {(e.path, e.version): e for e in (entry_from(container, r) for r in found)}
            earlier = self._superseded(db, "dreamer", container, None) if changes else {}
            notes = [note_from(row) for row in rows(NOTE, "snapshot_notes")]
            return tuple(entries), tuple(whole(container, changes, earlier, bases)), tuple(notes)

        return self._pool.transaction(work, frozen=True)
