-- Sessions and their marks, written by agents' processes. Marks are only added.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ledger TEXT NOT NULL,                    -- a random name of this ledger
  lost INTEGER NOT NULL                    -- it was created beside memory that an earlier one knew
);
CREATE TABLE families (family TEXT PRIMARY KEY, salt TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY,
  family TEXT NOT NULL,
  agent TEXT NOT NULL,
  opened TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  family TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  origin TEXT,
  first_seen TEXT NOT NULL,
  UNIQUE (family, kind, name)
);
-- What a session's context block is made from, fixed by whichever process renders first.
CREATE TABLE pins (
  session_id TEXT NOT NULL,
  org_epoch INTEGER NOT NULL,
  own_epoch INTEGER NOT NULL,
  org INTEGER NOT NULL,
  own INTEGER NOT NULL,
  marked INTEGER NOT NULL,
  PRIMARY KEY (session_id, org_epoch, own_epoch)
) WITHOUT ROWID;

CREATE TRIGGER sources_are_fixed BEFORE UPDATE ON sources
BEGIN SELECT RAISE(ABORT, 'marks are not rewritten'); END;
CREATE TRIGGER sources_stay BEFORE DELETE ON sources
BEGIN SELECT RAISE(ABORT, 'marks are not deleted'); END;
CREATE TRIGGER sessions_are_fixed BEFORE UPDATE ON sessions
BEGIN SELECT RAISE(ABORT, 'sessions are not rewritten'); END;
CREATE TRIGGER sessions_stay BEFORE DELETE ON sessions
BEGIN SELECT RAISE(ABORT, 'sessions are not deleted'); END;
