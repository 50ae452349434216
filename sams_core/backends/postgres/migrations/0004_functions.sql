-- Verbs that need one round trip, and those that must read more than their caller may.

-- Runs with the caller's rights: policies and triggers decide.
CREATE FUNCTION sams.open_session(c text, s text, a text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f CONSTANT text := split_part(s, '/', 1);
    known text;
    family_known boolean;
BEGIN
    SELECT agent INTO known FROM sams.sessions WHERE container = c AND session_id = s;
    IF FOUND AND (known <> a OR sams.vouched('agent', c) OR EXISTS (
            SELECT FROM sams.sources WHERE container = c AND family = f AND kind = 'login')) THEN
        RETURN known;
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true);
    family_known := EXISTS (SELECT FROM sams.families WHERE container = c AND family = f);
    PERFORM sams.lock_family(c, f);
    INSERT INTO sams.sessions (container, session_id, family, agent, login, opened)
        VALUES (c, s, f, a, session_user, '') ON CONFLICT DO NOTHING;
    SELECT agent INTO known FROM sams.sessions WHERE container = c AND session_id = s;
    IF known <> a THEN
        RETURN known;
    END IF;
    IF NOT family_known AND sams.has_memory(c, f) THEN
        PERFORM sams.add_source(c, f, jsonb_build_object('kind', 'ledger-lost', 'name',
            'the ledger doesn''t know a session whose memory exists', 'first_seen',
            sams.utc_now()));
    END IF;
    IF NOT sams.vouched('agent', c) THEN
        PERFORM sams.add_source(c, f, sams.login_source());
    END IF;
    RETURN known;
END $$;

CREATE FUNCTION sams.has_memory(c text, f text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sams.granted('agent', c) AND (
        EXISTS (SELECT FROM sams.notes WHERE container = c AND family = f)
        OR EXISTS (SELECT FROM sams.changes WHERE container = c AND writer = f)
        OR EXISTS (SELECT FROM sams.versions WHERE container = c AND family = f))
$$;

-- A mark is never refused; beyond `most` the rest is one source of kind `more`.
CREATE FUNCTION sams.add_sources(c text, f text, marks jsonb, most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    mark jsonb;
    have integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM sams.lock_family(c, f);
    SELECT count(*) INTO have FROM sams.sources WHERE container = c AND family = f;
    FOR mark IN SELECT * FROM jsonb_array_elements(marks) LOOP
        CONTINUE WHEN EXISTS (SELECT FROM sams.sources WHERE container = c AND family = f
            AND kind = mark->>'kind' AND name = mark->>'name');
        IF have >= most THEN
            mark := jsonb_build_object('kind', 'more', 'name', 'more sources than are kept',
                'first_seen', mark->>'first_seen');
        END IF;
        INSERT INTO sams.sources (container, family, kind, name, origin, first_seen, login)
            VALUES (c, f, mark->>'kind', mark->>'name', mark->>'origin', mark->>'first_seen',
                session_user) ON CONFLICT DO NOTHING;
        EXIT WHEN have >= most;
        have := have + 1;
    END LOOP;
END $$;

-- What the counts of a submitter are, under its family's or its job's lock.
CREATE FUNCTION sams.counts(r text, c text, w text, p text, a text,
    OUT salt text, OUT open_own bigint, OUT stored_own bigint, OUT bytes_own bigint,
    OUT open_all bigint, OUT open_agent bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.check_granted(r, c);
    IF r = 'agent' THEN
        salt := sams.lock_family(c, w);
    ELSE
        PERFORM sams.check_isolation();
        PERFORM FROM sams.jobs WHERE container = c AND job || '/' = w FOR UPDATE;
    END IF;
    SELECT count(*), coalesce(sum(size), 0) INTO stored_own, bytes_own FROM sams.changes
        WHERE container = c AND writer = w AND closed_by IS NULL;
    SELECT count(*) FILTER (WHERE writer = w), count(*), count(*) FILTER (WHERE agent = a)
        INTO open_own, open_all, open_agent FROM sams.changes
        WHERE container = c AND state = 'open' AND NOT (writer = w AND path = p);
    IF r = 'agent' THEN
        bytes_own := bytes_own + (SELECT coalesce(sum(size), 0) FROM sams.notes
            WHERE container = c AND family = w);
    END IF;
END $$;

-- A dreaming job reads through these alone: whatever they return is recorded as read, in the same
-- statement and with the same eyes.
CREATE FUNCTION sams.snapshot_entries(c text, j text, clean boolean) RETURNS TABLE (
    path text, version bigint, description text, content text, date text, sources jsonb,
    provenance jsonb, status text, handle text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.begin_snapshot(c, j);
    RETURN QUERY WITH shown AS MATERIALIZED (
        SELECT v.*, t.description, t.content FROM sams.versions v
        JOIN sams.texts t USING (container, path, version)
        WHERE v.container = c AND v.status = 'active' AND NOT (clean AND v.labelled)
    ), read AS (
        INSERT INTO sams.readings (container, job, kind, name, origin, first_seen)
        SELECT c, j, s->>'kind', s->>'name', s->>'origin', s->>'first_seen'
        FROM shown, jsonb_array_elements(shown.sources) s ON CONFLICT DO NOTHING
    )
    SELECT s.path, s.version, s.description, s.content, s.date, s.sources, s.provenance, s.status,
        s.handle FROM shown s ORDER BY s.path;
END $$;

CREATE FUNCTION sams.snapshot_changes(c text, j text, clean boolean) RETURNS SETOF sams.changes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.begin_snapshot(c, j);
    RETURN QUERY WITH shown AS MATERIALIZED (
        SELECT h.*, b.sources AS base_sources FROM sams.changes h
        LEFT JOIN sams.versions b ON b.container = h.container AND b.path = h.path
            AND b.version = h.base_version
        WHERE h.container = c AND h.state = 'open'
            AND NOT (clean AND (h.sources <> '[]'::jsonb OR coalesce(b.labelled, false)))
    ), read AS (
        INSERT INTO sams.readings (container, job, kind, name, origin, first_seen)
        SELECT c, j, s->>'kind', s->>'name', s->>'origin', s->>'first_seen'
        FROM shown, jsonb_array_elements(shown.sources || coalesce(shown.base_sources, '[]')) s
        ON CONFLICT DO NOTHING
    )
    SELECT h.* FROM sams.changes h JOIN shown ON shown.container = h.container AND shown.id = h.id
        ORDER BY h.seq;
END $$;

CREATE FUNCTION sams.snapshot_notes(c text, j text, clean boolean) RETURNS SETOF sams.notes
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.begin_snapshot(c, j);
    RETURN QUERY WITH shown AS MATERIALIZED (
        SELECT n.* FROM sams.notes n WHERE n.container = c AND NOT (clean AND n.labelled)
    ), read AS (
        INSERT INTO sams.readings (container, job, kind, name, origin, first_seen)
        SELECT c, j, s->>'kind', s->>'name', s->>'origin', s->>'first_seen'
        FROM shown, jsonb_array_elements(shown.sources) s ON CONFLICT DO NOTHING
    )
    SELECT * FROM shown ORDER BY scope, path;
END $$;

-- What a job's snapshot needs besides: bases of open changes and what those superseded, without
-- their texts. Both are of the partition that was recorded just before.
CREATE FUNCTION sams.snapshot_bases(c text, j text, clean boolean) RETURNS TABLE (
    path text, version bigint, description text, content text, date text, sources jsonb,
    provenance jsonb, status text, handle text, ended_date text, ended_by text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.begin_snapshot(c, j);
    RETURN QUERY WITH shown AS MATERIALIZED (
        SELECT DISTINCT ON (v.path, v.version) v.*, t.description, t.content
        FROM sams.changes h
        JOIN sams.versions v ON v.container = h.container AND v.path = h.path
            AND v.version = h.base_version
        JOIN sams.texts t ON t.container = v.container AND t.path = v.path AND t.version = v.version
        WHERE h.container = c AND h.state = 'open'
            AND NOT (clean AND (h.sources <> '[]'::jsonb OR v.labelled))
    ), read AS (
        INSERT INTO sams.readings (container, job, kind, name, origin, first_seen)
        SELECT c, j, s->>'kind', s->>'name', s->>'origin', s->>'first_seen'
        FROM shown, jsonb_array_elements(shown.sources) s ON CONFLICT DO NOTHING
    )
    SELECT s.path, s.version, s.description, s.content, s.date, s.sources, s.provenance, s.status,
        s.handle, s.ended_date, s.ended_by FROM shown s;
END $$;

-- What a job's own proposal would replace; that counts as read too.
CREATE FUNCTION sams.proposal_base(c text, i text) RETURNS TABLE (
    path text, version bigint, description text, content text, date text, sources jsonb,
    provenance jsonb, status text, handle text, ended_date text, ended_by text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.check_granted('dreamer', c);
    RETURN QUERY WITH shown AS MATERIALIZED (
        SELECT v.*, t.description, t.content, h.agent AS job FROM sams.changes h
        JOIN sams.versions v ON v.container = h.container AND v.path = h.path
            AND v.version = h.base_version
        JOIN sams.texts t ON t.container = v.container AND t.path = v.path AND t.version = v.version
        WHERE h.container = c AND h.id = i AND h.kind = 'proposal' AND h.login = session_user
    ), read AS (
        INSERT INTO sams.readings (container, job, kind, name, origin, first_seen)
        SELECT c, shown.job, s->>'kind', s->>'name', s->>'origin', s->>'first_seen'
        FROM shown, jsonb_array_elements(shown.sources) s ON CONFLICT DO NOTHING
    )
    SELECT s.path, s.version, s.description, s.content, s.date, s.sources, s.provenance, s.status,
        s.handle, s.ended_date, s.ended_by FROM shown s;
END $$;

CREATE FUNCTION sams.begin_snapshot(c text, j text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.check_granted('dreamer', c);
    PERFORM set_config('synchronous_commit', 'on', true);
    INSERT INTO sams.jobs (container, job) VALUES (c, j) ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION sams.superseded(r text, c text, w text, p text) RETURNS TABLE (
    writer text, path text, seq bigint, id text, flags jsonb, sources jsonb, closed_by text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.check_granted(r, c);
    RETURN QUERY SELECT h.writer, h.path, h.seq, h.id, h.flags, h.sources, h.closed_by
        FROM sams.changes h WHERE h.container = c AND h.state = 'superseded'
            AND (CASE WHEN w IS NULL THEN h.closed_by IS NULL
                 ELSE h.writer = w AND h.path = p END)
            -- A job is shown nothing tainted of which no reading is recorded.
            AND (r <> 'dreamer' OR h.login = session_user OR h.sources = '[]'::jsonb
                OR EXISTS (SELECT FROM sams.readings d WHERE d.container = c
                    AND d.kind = h.sources->0->>'kind' AND d.name = h.sources->0->>'name'))
        ORDER BY h.seq;
END $$;

-- Full-text search. The operator that the index answers isn't leakproof, so under a policy the index
-- would stay unused; hence a function that checks the grant itself. Plans are made for the values.
-- Ranking is BM25 (k1 1.2, b 0.75) over at most 2,000 of the newest hits, and 2,000 older ones that
-- have several of the most telling terms.
CREATE FUNCTION sams.search(c text, s text, want boolean, terms text[], telling jsonb,
    enough integer, most integer)
RETURNS TABLE (path text, handle text, version bigint, description text, date text, content text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    total bigint;
    tokens double precision;
    newest bigint[];
    older bigint[] := '{}';
    several text[] := '{}';
    n CONSTANT integer := jsonb_array_length(telling);
    idf double precision[] := '{}';
    term text;
    hits bigint;
    best text[];
BEGIN
    IF NOT (sams.granted('agent', c) OR s = c AND sams.granted('owner', c)) THEN
        RAISE EXCEPTION 'no grant' USING ERRCODE = 'SM001';
    END IF;
    SELECT count(*), sum(length) INTO total, tokens FROM sams.lookup
        WHERE container = c AND scope = s AND labelled = want;
    SELECT array_agg(x.seq) INTO newest FROM (
        SELECT l.seq FROM sams.lookup l WHERE l.container = c AND l.scope = s
            AND l.labelled = want AND l.counts ?| terms ORDER BY l.seq DESC LIMIT 2000) x;
    IF newest IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(newest) = 2000 AND n >= 2 THEN
        FOR a IN 0 .. n - 1 LOOP
            FOR b IN a + 1 .. n - 1 LOOP
                IF enough = 2 THEN
                    several := several || format('(l.counts ?| $5[%s:%s] AND l.counts ?| $5[%s:%s])',
                        sams.first_of(telling, a), sams.first_of(telling, a + 1) - 1,
                        sams.first_of(telling, b), sams.first_of(telling, b + 1) - 1);
                ELSE
                    FOR d IN b + 1 .. n - 1 LOOP
                        several := several || format('(l.counts ?| $5[%s:%s] AND l.counts ?| $5[%s:%s] '
                            'AND l.counts ?| $5[%s:%s])',
                            sams.first_of(telling, a), sams.first_of(telling, a + 1) - 1,
                            sams.first_of(telling, b), sams.first_of(telling, b + 1) - 1,
                            sams.first_of(telling, d), sams.first_of(telling, d + 1) - 1);
                    END LOOP;
                END IF;
            END LOOP;
        END LOOP;
        IF cardinality(several) > 0 THEN
            EXECUTE 'SELECT coalesce(array_agg(x.seq), ''{}'') FROM (SELECT l.seq FROM sams.lookup l '
                'WHERE l.container = $1 AND l.scope = $2 AND l.labelled = $3 AND l.seq < $4 AND ('
                || array_to_string(several, ' OR ') || ') ORDER BY l.seq DESC LIMIT 2000) x'
                INTO older USING c, s, want, newest[2000],
                    ARRAY(SELECT w FROM jsonb_array_elements(telling) WITH ORDINALITY e(e, o),
                        jsonb_array_elements_text(e.e) WITH ORDINALITY w(w, i) ORDER BY o, i);
        END IF;
    END IF;
    FOREACH term IN ARRAY terms LOOP
        SELECT count(*) INTO hits FROM sams.lookup l WHERE l.container = c AND l.scope = s
            AND l.labelled = want AND l.counts ? term;
        idf := idf || greatest(1e-6, ln((total - hits + 0.5) / (hits + 0.5)));
    END LOOP;
    SELECT array_agg(x.path ORDER BY x.score DESC, x.seq DESC) INTO best FROM (
        SELECT l.path, l.seq, (
            SELECT sum(i.w * f.f * 2.2 / (f.f + 1.2 * (0.25 + 0.75 * l.length * total / tokens)))
            FROM unnest(terms, idf) i(t, w), LATERAL (SELECT (l.counts->>i.t)::float8) f(f)
        ) AS score
        FROM sams.lookup l WHERE l.container = c AND l.scope = s AND l.labelled = want
            AND l.seq = ANY (newest || older)
        ORDER BY score DESC, l.seq DESC LIMIT most
    ) x;
    IF s = c THEN
        RETURN QUERY SELECT v.path, v.handle, v.version, t.description, v.date, t.content
            FROM unnest(best) WITH ORDINALITY b(path, o)
            JOIN sams.versions v ON v.container = c AND v.path = b.path AND v.status = 'active'
                AND v.labelled = want
            JOIN sams.texts t ON t.container = c AND t.path = v.path AND t.version = v.version
            ORDER BY b.o;
    ELSE
        RETURN QUERY SELECT o.path, NULL::text, o.version, o.description, o.date, o.content
            FROM unnest(best) WITH ORDINALITY b(path, o)
            JOIN sams.notes o ON o.container = c AND o.scope = s AND o.path = b.path
                AND o.labelled = want
            ORDER BY b.o;
    END IF;
END $$;

CREATE FUNCTION sams.first_of(telling jsonb, at integer) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 1 + coalesce(sum(jsonb_array_length(e)), 0)::integer
    FROM jsonb_array_elements(telling) WITH ORDINALITY x(e, o) WHERE o <= at
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sams FROM PUBLIC;
