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

-- What a session's context block is made from, fixed at the first call in an epoch; nobody chooses it.
CREATE FUNCTION sams.pin(c text, s text, OUT org bigint, OUT own bigint, OUT marked boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ours sams.meta%ROWTYPE;
    mine sams.meta%ROWTYPE;
BEGIN
    PERFORM sams.check_granted('agent', c);
    SELECT * INTO ours FROM sams.meta WHERE container = 'org';
    SELECT * INTO mine FROM sams.meta WHERE container = c;
    FOR attempt IN 1 .. 2 LOOP
        SELECT p.org, p.own, p.marked INTO pin.org, pin.own, pin.marked FROM sams.pins p
            WHERE p.container = c AND p.session_id = s
                AND p.org_epoch = coalesce(ours.epoch, 0) AND p.own_epoch = coalesce(mine.epoch, 0);
        EXIT WHEN FOUND;
        INSERT INTO sams.pins VALUES (c, s, coalesce(ours.epoch, 0), coalesce(mine.epoch, 0),
            coalesce(ours.revision, 0), coalesce(mine.revision, 0), EXISTS (SELECT FROM sams.sources
                WHERE container = c AND family = split_part(s, '/', 1))) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- Deleting takes a right with which a table can be locked for all tenants; hence two functions.
CREATE FUNCTION sams.clear_runs(c text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE gone bigint;
BEGIN
    PERFORM sams.check_granted('owner', c);
    PERFORM set_config('synchronous_commit', 'on', true);
    DELETE FROM sams.notes WHERE container = c;
    GET DIAGNOSTICS gone = ROW_COUNT;
    DELETE FROM sams.replays WHERE container = c;
    DELETE FROM sams.lookup WHERE container = c AND scope <> c;
    DELETE FROM sams.partitions WHERE container = c AND scope <> c;
    RETURN gone;
END $$;

-- Index an entry or a note in the place of what was there under its path; the newest counts as newest.
CREATE FUNCTION sams.put(c text, s text, p text, label boolean, size integer, weights jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE n bigint;
BEGIN
    PERFORM sams.check_granted(CASE WHEN s = c THEN 'owner' ELSE 'agent' END, c);
    INSERT INTO sams.partitions AS t VALUES (c, s, label, 1, size, 1)
        ON CONFLICT (container, scope, labelled) DO UPDATE SET texts = t.texts + 1,
            terms = t.terms + excluded.terms, newest = t.newest + 1 RETURNING newest INTO n;
    PERFORM sams.forget(c, s, p);
    INSERT INTO sams.lookup (container, scope, path, labelled, length, counts, seq)
        VALUES (c, s, p, label, size, weights, n);
END $$;

CREATE FUNCTION sams.unindex(c text, p text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.check_granted('owner', c);
    PERFORM sams.forget(c, c, p);
END $$;

CREATE FUNCTION sams.forget(c text, s text, p text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (DELETE FROM sams.lookup WHERE container = c AND scope = s AND path = p
        RETURNING labelled, length)
    UPDATE sams.partitions t SET texts = t.texts - 1, terms = t.terms - gone.length FROM gone
        WHERE t.container = c AND t.scope = s AND t.labelled = gone.labelled
$$;

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

-- What one decision closed, or what waits: all of it, or a writer's for a path. A writer may have had
-- very many decided by now, so no plan is kept that must fit all three.
CREATE FUNCTION sams.superseded(r text, c text, w text, p text, decision text) RETURNS TABLE (
    writer text, path text, seq bigint, id text, flags jsonb, sources jsonb, closed_by text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
BEGIN
    PERFORM sams.check_granted(r, c);
    RETURN QUERY SELECT h.writer, h.path, h.seq, h.id, h.flags, h.sources, h.closed_by
        FROM sams.changes h WHERE h.container = c AND h.state = 'superseded'
            AND (CASE WHEN decision IS NOT NULL THEN h.closed_by = decision
                 WHEN w IS NULL THEN h.closed_by IS NULL
                 ELSE h.closed_by IS NULL AND h.writer = w AND h.path = p END)
            -- A job is shown nothing tainted of which no reading is recorded.
            AND (r <> 'dreamer' OR h.login = session_user OR h.sources = '[]'::jsonb
                OR EXISTS (SELECT FROM sams.readings d WHERE d.container = c
                    AND d.kind = h.sources->0->>'kind' AND d.name = h.sources->0->>'name'))
        ORDER BY h.seq;
END $$;

-- Full-text search. The operator that the index answers isn't leakproof, so under a policy the index
-- would stay unused; hence a function that checks the grant itself. Ranking is BM25 (k1 1.2, b 0.75)
-- over at most 2,000 of the newest hits, and 2,000 older ones that have several of the most telling
-- terms. In how many texts a term occurs is counted among those where they are all the hits there are;
-- else up to 2,000, beyond which the newest hits' share of their time stands for the whole.
CREATE FUNCTION sams.search(c text, s text, want boolean, terms text[], telling jsonb,
    enough integer, most integer)
RETURNS TABLE (path text, handle text, version bigint, description text, date text, content text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
SET max_parallel_workers_per_gather = 0 SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    whole sams.partitions%ROWTYPE;
    newest bigint[];
    older bigint[] := '{}';
    floor bigint;
    since bigint;
    known bigint[];
    best text[];
BEGIN
    IF NOT (sams.granted('agent', c) OR s = c AND sams.granted('owner', c)) THEN
        RAISE EXCEPTION 'no grant' USING ERRCODE = 'SM001';
    END IF;
    SELECT * INTO whole FROM sams.partitions
        WHERE container = c AND scope = s AND labelled = want;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    newest := sams.hits(c, s, want, jsonb_build_array(terms), 1, whole.newest + 1);
    IF cardinality(newest) = 2000 THEN
        floor := newest[2000];
        older := sams.hits(c, s, want, telling, enough, floor);
        -- Among more than 20,000 the hits' share is so small that 2,000 will do.
        SELECT CASE WHEN count(*) < 20000 THEN count(*) ELSE whole.texts END INTO since FROM (
            SELECT FROM sams.lookup WHERE container = c AND scope = s AND labelled = want
                AND seq >= floor ORDER BY seq DESC LIMIT 20000) x;
        known := ARRAY(SELECT sams.hit_by(c, s, want, t, whole.newest)
            FROM unnest(terms) WITH ORDINALITY x(t, o) ORDER BY o);
    END IF;
    WITH found AS MATERIALIZED (
        SELECT l.path, hit.seq, t.o, greatest(0, least(1e6, t.n::numeric))::float8 AS f,
            1.2 * (0.25 + 0.75 * l.length * whole.texts / greatest(1, whole.terms)::float8) AS size
        -- Row by row, whatever the planner guesses; unpacked once a row, not once a term.
        FROM unnest(newest || older) hit(seq),
            LATERAL (SELECT x.path, x.length, x.counts || '{}'::jsonb AS counts FROM sams.lookup x
                WHERE x.container = c AND x.scope = s AND x.labelled = want AND x.seq = hit.seq
                OFFSET 0) l,
            LATERAL (SELECT x.o, l.counts->x.term AS n
                FROM unnest(terms) WITH ORDINALITY x(term, o) OFFSET 0) t
        WHERE jsonb_typeof(t.n) = 'number'
    ), occurring AS (
        SELECT o, CASE WHEN floor IS NULL THEN count(*) WHEN known[o] < 2000 THEN known[o]
            ELSE greatest(2000, count(*) FILTER (WHERE seq >= floor) * whole.texts / since)
            END AS n FROM found GROUP BY o
    ), weights AS (
        SELECT o, greatest(1e-6, ln((greatest(0, whole.texts - n) + 0.5) / (n + 0.5)::float8)) AS w
        FROM occurring
    )
    SELECT array_agg(x.path ORDER BY x.score DESC, x.seq DESC) INTO best FROM (
        SELECT path, seq, sum(w * f * 2.2 / (f + size) ORDER BY o) AS score
        FROM found JOIN weights USING (o) GROUP BY path, seq ORDER BY score DESC, seq DESC LIMIT most
    ) x;
    IF s = c THEN
        RETURN QUERY SELECT e.* FROM unnest(best) WITH ORDINALITY b(path, o), LATERAL (
                SELECT v.path, v.handle, v.version, t.description, v.date, t.content
                FROM sams.versions v JOIN sams.texts t
                    ON t.container = c AND t.path = b.path AND t.version = v.version
                WHERE v.container = c AND v.path = b.path AND v.status = 'active'
                    AND v.labelled = want OFFSET 0) e
            ORDER BY b.o;
    ELSE
        RETURN QUERY SELECT e.* FROM unnest(best) WITH ORDINALITY b(path, o), LATERAL (
                SELECT n.path, NULL::text, n.version, n.description, n.date, n.content
                FROM sams.notes n WHERE n.container = c AND n.scope = s AND n.path = b.path
                    AND n.labelled = want OFFSET 0) e
            ORDER BY b.o;
    END IF;
END $$;

-- The newest 2,000 texts before one that have `enough` of the groups of terms, era by era, newest first.
-- The index of terms must answer whatever the planner guesses: nothing else here can use an index.
CREATE FUNCTION sams.hits(c text, s text, want boolean, groups jsonb, enough integer, before bigint)
RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = on
AS $$
DECLARE
    found bigint[] := '{}';
    more bigint[];
BEGIN
    FOR era IN REVERSE (before - 1) / 4096 .. 0 LOOP
        more := ARRAY(
            SELECT l.seq FROM jsonb_array_elements(groups) g(forms) JOIN sams.lookup l
                ON sams.row_keys(l.container, l.scope, l.labelled, l.seq, l.counts)
                    && sams.keys(c, s, want, era, ARRAY(SELECT jsonb_array_elements_text(g.forms)))
            WHERE (l.container, l.scope, l.labelled) IS NOT DISTINCT FROM (c, s, want)
                AND l.seq + 0 < before
            GROUP BY l.seq HAVING count(*) >= enough
            ORDER BY l.seq DESC LIMIT 2000 - cardinality(found));
        found := found || more;
        EXIT WHEN cardinality(found) = 2000;
    END LOOP;
    RETURN found;
END $$;

-- In how many texts a term occurs, counted up to 2,000.
CREATE FUNCTION sams.hit_by(c text, s text, want boolean, term text, newest bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = on
AS $$
DECLARE n bigint := 0;
BEGIN
    FOR until IN REVERSE newest / 4096 .. 0 BY 16 LOOP
        n := n + (SELECT count(*) FROM (
            SELECT FROM sams.lookup l
            WHERE sams.row_keys(l.container, l.scope, l.labelled, l.seq, l.counts)
                    && ARRAY(SELECT unnest(sams.keys(c, s, want, era, ARRAY[term]))
                        FROM generate_series(greatest(0, until - 15), until) era)
                AND (l.container, l.scope, l.labelled) IS NOT DISTINCT FROM (c, s, want)
            LIMIT 2000 - n) x);
        EXIT WHEN n = 2000;
    END LOOP;
    RETURN n;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sams FROM PUBLIC;
