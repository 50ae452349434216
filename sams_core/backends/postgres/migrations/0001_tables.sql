-- Everything lives in one schema of its own. Every key starts with the container, so that an error
-- about a key can't tell one tenant of another. Texts and names compare byte by byte (COLLATE "C").

CREATE SCHEMA IF NOT EXISTS sams;
REVOKE ALL ON SCHEMA sams FROM PUBLIC;

CREATE TABLE sams.store (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    id text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
    version integer NOT NULL DEFAULT 0
);
INSERT INTO sams.store DEFAULT VALUES;

-- Who may be what, and where. `clean_sessions`: the administrator vouches for the login's host, so
-- that sessions under it may begin unmarked.
CREATE TABLE sams.grants (
    login name NOT NULL,
    role text NOT NULL CHECK (role IN ('agent', 'dreamer', 'owner')),
    container text COLLATE "C" NOT NULL,
    clean_sessions boolean NOT NULL DEFAULT false,
    granted_by name NOT NULL DEFAULT session_user,
    granted timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (login, role, container),
    CHECK (role <> 'agent' OR container <> 'org')
);

-- The ledger: sessions, families and what marked them. Only ever added to.
CREATE TABLE sams.families (
    container text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    salt text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
    PRIMARY KEY (container, family)
);
CREATE TABLE sams.sessions (
    container text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    login name NOT NULL,
    opened text NOT NULL,
    PRIMARY KEY (container, session_id)
);
CREATE TABLE sams.sources (
    container text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('user', 'unobserved', 'reason', 'tool', 'memory', 'binding',
        'ledger-lost', 'login', 'more')),
    name text COLLATE "C" NOT NULL CHECK (octet_length(name) <= 1600),
    origin text CHECK (octet_length(origin) <= 1600),
    first_seen text NOT NULL CHECK (octet_length(first_seen) <= 64),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    login name NOT NULL,
    PRIMARY KEY (container, family, kind, name)
);
CREATE TABLE sams.pins (
    container text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    org_epoch bigint NOT NULL,
    own_epoch bigint NOT NULL,
    org bigint NOT NULL,
    own bigint NOT NULL,
    marked boolean NOT NULL,
    PRIMARY KEY (container, session_id, org_epoch, own_epoch)
);

-- What a dreaming job has read sticks to its id.
CREATE TABLE sams.jobs (
    container text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    PRIMARY KEY (container, job)
);
CREATE TABLE sams.readings (
    container text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text COLLATE "C" NOT NULL,
    origin text,
    first_seen text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (container, job, kind, name)
);

-- Curated memory. Texts lie apart from versions and ids, which outlive them.
CREATE TABLE sams.meta (
    container text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE sams.versions (
    container text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL CHECK (path ~ '^[A-Za-z0-9_./-]{1,96}$'),
    version bigint NOT NULL CHECK (version > 0),
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'superseded', 'retired')),
    labelled boolean NOT NULL,
    handle text COLLATE "C",
    born bigint NOT NULL,
    ended bigint,
    date text NOT NULL,
    ended_date text,
    ended_by text,
    digest text COLLATE "C" NOT NULL,
    family text COLLATE "C",
    change_id text COLLATE "C",
    login name NOT NULL,
    sources jsonb NOT NULL DEFAULT '[]',
    provenance jsonb NOT NULL,
    PRIMARY KEY (container, path, version),
    CHECK (labelled = (sources <> '[]'::jsonb)),
    CHECK (NOT labelled OR handle IS NOT NULL)
);
CREATE UNIQUE INDEX versions_active ON sams.versions (container, path) WHERE status = 'active';
CREATE UNIQUE INDEX versions_digest ON sams.versions (container, digest);
CREATE INDEX versions_trusted_now ON sams.versions (container, path)
    INCLUDE (version, date) WHERE status = 'active' AND NOT labelled;
CREATE UNIQUE INDEX versions_labelled_now ON sams.versions (container, handle)
    WHERE status = 'active' AND labelled;
CREATE INDEX versions_family ON sams.versions (container, family) WHERE family IS NOT NULL;
CREATE INDEX versions_change ON sams.versions (container, change_id) WHERE change_id IS NOT NULL;
CREATE TABLE sams.texts (
    container text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    description text NOT NULL CHECK (length(description) <= 2000),
    content text NOT NULL CHECK (octet_length(content) <= 10000000),
    PRIMARY KEY (container, path, version)
);
CREATE TABLE sams.handles (
    container text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    handle text COLLATE "C" NOT NULL CHECK (handle ~ '^untrusted/[0-9a-f]{8}$'),
    PRIMARY KEY (container, path),
    UNIQUE (container, handle)
);

-- The queue. A change is immutable; only what became of it is written later, by triggers.
CREATE TABLE sams.changes (
    container text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL CHECK (id ~ '^[0-9a-f]{32}$'),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('write', 'proposal')),
    writer text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL CHECK (path ~ '^[A-Za-z0-9_./-]{1,96}$'),
    agent text COLLATE "C" NOT NULL CHECK (octet_length(agent) <= 1600),
    session_id text COLLATE "C",
    login name NOT NULL,
    base_version bigint NOT NULL CHECK (base_version >= 0),
    base_digest text,
    description text NOT NULL CHECK (length(description) <= 2000),
    content text NOT NULL CHECK (octet_length(content) <= 10000000),
    flags jsonb NOT NULL DEFAULT '[]',
    sources jsonb NOT NULL DEFAULT '[]',
    rationale text NOT NULL DEFAULT '' CHECK (length(rationale) <= 20000),
    evidence jsonb NOT NULL DEFAULT '[]',
    occurrences integer NOT NULL DEFAULT 1 CHECK (occurrences > 0),
    date text NOT NULL,
    size integer NOT NULL,
    state text NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'superseded', 'accepted', 'rejected', 'edited')),
    successor text,
    closed_by text,
    PRIMARY KEY (container, id)
);
CREATE UNIQUE INDEX changes_open ON sams.changes (container, writer, path)
    INCLUDE (agent) WHERE state = 'open';
CREATE INDEX changes_waiting ON sams.changes (container, writer, path, seq)
    INCLUDE (size) WHERE closed_by IS NULL;
CREATE INDEX changes_closed ON sams.changes (container, closed_by) WHERE closed_by IS NOT NULL;
CREATE INDEX changes_session ON sams.changes (container, writer);
CREATE TABLE sams.decisions (
    container text COLLATE "C" NOT NULL,
    change_id text COLLATE "C" NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('accepted', 'rejected', 'edited')),
    owner text NOT NULL,
    login name NOT NULL,
    date text NOT NULL,
    digest text NOT NULL,
    note text NOT NULL,
    flags jsonb NOT NULL,
    PRIMARY KEY (container, change_id)
);

-- Run notes: scratchpads, one a session.
CREATE TABLE sams.notes (
    container text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL CHECK (path ~ '^[A-Za-z0-9_./-]{1,96}$'),
    version bigint NOT NULL CHECK (version > 0),
    family text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    login name NOT NULL,
    labelled boolean NOT NULL,
    sources jsonb NOT NULL DEFAULT '[]',
    base_digest text,
    date text NOT NULL,
    size integer NOT NULL,
    description text NOT NULL CHECK (length(description) <= 2000),
    content text NOT NULL CHECK (octet_length(content) <= 10000000),
    PRIMARY KEY (container, scope, path)
);
CREATE INDEX notes_family ON sams.notes (container, family) INCLUDE (size);
CREATE TABLE sams.replays (
    container text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL CHECK (id ~ '^[0-9a-f]{32}$'),
    path text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (container, id)
);

-- The search index: one row for each text that is served. `counts` maps a term, behind the token of
-- its partition, to how often it occurs, weighted by field; `seq` grows with time.
CREATE TABLE sams.lookup (
    container text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    labelled boolean NOT NULL,
    length integer NOT NULL,
    counts jsonb NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (container, scope, path)
);
CREATE INDEX lookup_terms ON sams.lookup USING gin (counts jsonb_ops);
CREATE INDEX lookup_partition ON sams.lookup (container, scope, labelled, seq) INCLUDE (length);
