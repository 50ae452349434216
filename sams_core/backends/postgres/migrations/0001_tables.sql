-- Everything lives in one schema of its own. Every key starts with the container, so that an error
-- about a key can't tell one tenant of another. Texts and names compare byte by byte (COLLATE "C").

CREATE SCHEMA IF NOT EXISTS sams;
DO $$ BEGIN
    -- Whoever owns the schema can put other tables in the place of ours.
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sams'
            AND n.nspowner <> pg_catalog.quote_ident(current_user)::regrole)
        OR EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = 'sams'::regnamespace)
        OR EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = 'sams'::regnamespace) THEN
        RAISE EXCEPTION 'the schema is somebody else''s, or not empty' USING ERRCODE = 'SM008';
    END IF;
END $$;
REVOKE ALL ON SCHEMA sams FROM PUBLIC;

CREATE TABLE sams.store (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    id text NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
    version integer NOT NULL DEFAULT 0
);
INSERT INTO sams.store DEFAULT VALUES;

-- Who may be what, and where. `clean_sessions`: the administrator vouches for the login's host, so
-- that sessions under it may begin unmarked. A row counts for the very login that it was written for:
-- `who` differs where one was dropped and made again, or renamed to the name of another.
CREATE TABLE sams.grants (
    login name NOT NULL,
    who regrole NOT NULL,
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
    agent text COLLATE "C" NOT NULL CHECK (octet_length(agent) <= 1600),
    login name NOT NULL,
    opened text NOT NULL,
    PRIMARY KEY (container, session_id)
);
CREATE TABLE sams.sources (
    container text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    kind text NOT NULL CHECK (kind IN ('user', 'unobserved', 'reason', 'tool', 'retriever',
        'content', 'history', 'memory', 'binding', 'ledger-lost', 'login', 'more')),
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
    path text COLLATE "C" NOT NULL,
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
    path text COLLATE "C" NOT NULL,
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
    PRIMARY KEY (container, id),
    -- One malformed change would keep the owner from listing all others.
    CONSTRAINT changes_flags CHECK (
        jsonb_typeof(flags) = 'array' AND octet_length(flags::text) < 10000000
        AND jsonb_array_length(flags) = jsonb_array_length(jsonb_path_query_array(flags,
            'strict $[*] ? (@.rule.type() == "string" && @.field.type() == "string"
            && @.why.type() == "string" && @.start.floor() == @.start && @.end.floor() == @.end
            && @.start >= 0 && @.start < 10000000 && @.end >= 0 && @.end < 10000000)'))),
    CONSTRAINT changes_evidence CHECK (
        jsonb_typeof(evidence) = 'array' AND octet_length(evidence::text) < 1000000
        AND jsonb_array_length(evidence) = jsonb_array_length(jsonb_path_query_array(evidence,
            'strict $[*] ? (@.type() == "string")')))
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
    path text COLLATE "C" NOT NULL,
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

-- What `scopes.check_path` calls a path; handles have a root of their own.
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['versions', 'changes', 'notes', 'replays'] LOOP
        EXECUTE pg_catalog.format('ALTER TABLE sams.%I ADD CHECK (length(path) <= 96 AND '
            'path ~ ''^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,7}$'' AND '
            'path !~ ''(^|/)[.][.]?(/|$)'' AND path !~* ''^untrusted(/|$)'')', t);
    END LOOP;
END $$;

-- The search index: one row for each text that is served. `counts` maps a term to how often it occurs,
-- weighted by field; `seq` counts what was put into the partition, so that it grows with time.
CREATE TABLE sams.lookup (
    container text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    labelled boolean NOT NULL,
    length integer NOT NULL CHECK (length > 0),
    counts jsonb NOT NULL CHECK (jsonb_typeof(counts) = 'object'),
    seq bigint NOT NULL CHECK (seq > 0),
    PRIMARY KEY (container, scope, path)
);
CREATE UNIQUE INDEX lookup_partition ON sams.lookup (container, scope, labelled, seq);
-- What ranking must know of a whole partition: its texts, their terms, the newest `seq`.
CREATE TABLE sams.partitions (
    container text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    labelled boolean NOT NULL,
    texts bigint NOT NULL,
    terms bigint NOT NULL,
    newest bigint NOT NULL,
    PRIMARY KEY (container, scope, labelled)
);

-- The index holds numbers that stand for a term in one era, 4,096 texts, of one partition: a posting
-- list holds no other tenant's rows, and the newest hits are found without the older ones.
CREATE FUNCTION sams.keys(c text, s text, l boolean, era bigint, terms text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(hashtextextended(t COLLATE "C", p.seed)), '{}')
    FROM hashtextextended((c || ' ' || s || ' ' || l::text) COLLATE "C", era) p(seed), unnest(terms) t
$$;
-- So dear that no plan tries it row by row.
CREATE FUNCTION sams.row_keys(c text, s text, l boolean, seq bigint, counts jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 100000 SET search_path = pg_catalog, pg_temp
AS $$ SELECT sams.keys(c, s, l, seq / 4096, ARRAY(SELECT jsonb_object_keys(counts))) $$;
-- Each scan reads all of what isn't merged yet: let that stay small.
CREATE INDEX lookup_terms ON sams.lookup
    USING gin (sams.row_keys(container, scope, labelled, seq, counts))
    WITH (gin_pending_list_limit = 128);
ALTER INDEX sams.lookup_terms ALTER COLUMN 1 SET STATISTICS 0;
