-- The owner's database: entries with their history, decisions, and what is served to whom.
-- Versions and ids are kept apart from texts, so that a text can be erased and its version can't return.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  revision INTEGER NOT NULL DEFAULT 0,     -- grows with every publication and retirement
  epoch INTEGER NOT NULL DEFAULT 0,        -- the revision of the last retirement or restoration
  generation INTEGER NOT NULL DEFAULT 0,   -- which runs/<generation>.db is served
  accepted_ledger TEXT                     -- the id of a ledger whose loss of a predecessor was accepted
);
INSERT INTO meta (id) VALUES (1);

CREATE TABLE handles (path TEXT PRIMARY KEY, handle TEXT NOT NULL UNIQUE) WITHOUT ROWID;

CREATE TABLE versions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  path TEXT NOT NULL,
  version INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'superseded', 'retired')),
  labelled INTEGER NOT NULL,
  handle TEXT,
  born INTEGER NOT NULL,                   -- served from this revision
  ended INTEGER,                           -- to before this one
  ended_date TEXT,
  ended_by TEXT,
  date TEXT NOT NULL,
  digest TEXT NOT NULL UNIQUE,
  family TEXT,                             -- of the session that wrote it
  change_id TEXT,
  provenance TEXT NOT NULL,                -- JSON
  UNIQUE (path, version)
);
CREATE UNIQUE INDEX active_version ON versions (path) WHERE status = 'active';
-- A page is read along one of these two, at any revision and at the present one.
CREATE INDEX trusted_listing ON versions (path, born, ended, status) WHERE labelled = 0;
CREATE INDEX labelled_listing ON versions (handle, born, ended, status) WHERE labelled = 1;
CREATE INDEX trusted_now ON versions (path) WHERE labelled = 0 AND status = 'active';
CREATE INDEX labelled_now ON versions (handle) WHERE labelled = 1 AND status = 'active';
CREATE INDEX versions_by_family ON versions (family) WHERE family IS NOT NULL;
CREATE INDEX versions_by_change ON versions (change_id) WHERE change_id IS NOT NULL;

CREATE TABLE texts (
  id INTEGER PRIMARY KEY REFERENCES versions (id),
  description TEXT NOT NULL,
  content TEXT NOT NULL
);

CREATE TABLE decisions (
  change_id TEXT PRIMARY KEY,
  outcome TEXT NOT NULL CHECK (outcome IN ('accepted', 'rejected', 'edited')),
  owner TEXT NOT NULL,
  date TEXT NOT NULL,
  digest TEXT NOT NULL,
  note TEXT NOT NULL,
  family TEXT,
  change TEXT NOT NULL                     -- JSON, the whole change as it was shown
) WITHOUT ROWID;
CREATE INDEX decisions_by_family ON decisions (family) WHERE family IS NOT NULL;

-- Every id that is no longer open: the decided one and those it superseded.
CREATE TABLE closed (change_id TEXT PRIMARY KEY, decision TEXT NOT NULL) WITHOUT ROWID;

CREATE VIRTUAL TABLE trusted USING fts5(path, description, content, content='', tokenize="ascii tokenchars '_'");
CREATE VIRTUAL TABLE labelled USING fts5(path, description, content, content='', tokenize="ascii tokenchars '_'");

-- Guards against bugs. A process that can write this file can write anything.
CREATE TRIGGER versions_stay BEFORE DELETE ON versions
BEGIN SELECT RAISE(ABORT, 'versions are not deleted'); END;
CREATE TRIGGER versions_are_fixed
BEFORE UPDATE OF id, path, version, labelled, born, date, digest, family, change_id, provenance ON versions
BEGIN SELECT RAISE(ABORT, 'versions are not rewritten'); END;
CREATE TRIGGER texts_are_fixed BEFORE UPDATE ON texts
BEGIN SELECT RAISE(ABORT, 'texts are not rewritten'); END;
CREATE TRIGGER decisions_are_fixed BEFORE UPDATE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are not rewritten'); END;
CREATE TRIGGER decisions_stay BEFORE DELETE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are not deleted'); END;
