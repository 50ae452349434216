-- One generation of run notes, written by agents' processes.
CREATE TABLE notes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  scope TEXT NOT NULL,
  path TEXT NOT NULL,
  version INTEGER NOT NULL,
  labelled INTEGER NOT NULL,
  family TEXT NOT NULL,
  size INTEGER NOT NULL,                   -- bytes of text
  date TEXT NOT NULL,
  description TEXT NOT NULL,
  content TEXT NOT NULL,
  provenance TEXT NOT NULL,                -- JSON
  UNIQUE (scope, path)
);
CREATE INDEX notes_by_family ON notes (family, size);
CREATE TABLE replays (
  id TEXT PRIMARY KEY,
  path TEXT NOT NULL,
  version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE VIRTUAL TABLE notes_index USING fts5(path, description, content, content='', tokenize="ascii tokenchars '_'");
