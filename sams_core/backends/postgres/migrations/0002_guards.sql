-- Triggers: what is stored says who stored it and what marked them, and what is stored stays.
-- They run as the schema's owner with a pinned search_path; `session_user` is the login all the same,
-- whatever SET ROLE says.

CREATE FUNCTION sams.utc_now() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') $$;

-- In another isolation level a lock doesn't bring what was committed meanwhile.
CREATE FUNCTION sams.check_isolation() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'read committed is needed' USING ERRCODE = 'SM002';
    END IF;
END $$;

CREATE FUNCTION sams.stamp_grant() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    NEW.who := quote_ident(NEW.login)::regrole;
    -- Whoever vouches for the login's host answers for it.
    IF TG_OP = 'UPDATE' AND NEW.clean_sessions <> OLD.clean_sessions THEN
        NEW.granted_by := session_user;
        NEW.granted := now();
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON sams.grants
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_grant();

CREATE FUNCTION sams.granted(r text, c text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM sams.grants g WHERE g.login = session_user
            AND g.who = quote_ident(session_user)::regrole AND g.role = r
            AND (g.container = c OR (r = 'agent' AND c = 'org'))
    )
$$;

CREATE FUNCTION sams.check_granted(r text, c text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    IF c = 'org' AND r = 'agent' OR NOT sams.granted(r, c) THEN
        RAISE EXCEPTION 'no grant' USING ERRCODE = 'SM001';
    END IF;
END $$;

CREATE FUNCTION sams.vouched(r text, c text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM sams.grants g
        WHERE g.login = session_user AND g.who = quote_ident(session_user)::regrole
            AND g.role = r AND g.container = c AND g.clean_sessions
    )
$$;

CREATE FUNCTION sams.login_source() RETURNS jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object('kind', 'login', 'name',
        'login not vouched for: sams admin grant --clean-sessions vouches for the host that uses it',
        'origin', session_user::text, 'first_seen', sams.utc_now())
$$;

CREATE FUNCTION sams.add_source(c text, f text, s jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO sams.sources (container, family, kind, name, origin, first_seen, login)
    VALUES (c, f, s->>'kind', s->>'name', s->>'origin', s->>'first_seen', session_user)
    ON CONFLICT DO NOTHING
$$;

-- Take the family's lock and return its salt; a mark in flight is waited for.
CREATE FUNCTION sams.lock_family(c text, f text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE found_salt text;
BEGIN
    PERFORM sams.check_isolation();
    PERFORM sams.check_granted('agent', c);
    PERFORM set_config('lock_timeout', '30s', true);  -- whoever holds it may be hostile
    SELECT salt INTO found_salt FROM sams.families
        WHERE container = c AND family = f FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO sams.families (container, family) VALUES (c, f) ON CONFLICT DO NOTHING;
        SELECT salt INTO found_salt FROM sams.families
            WHERE container = c AND family = f FOR UPDATE;
    END IF;
    RETURN found_salt;
END $$;

CREATE FUNCTION sams.stamp_session() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.check_isolation();
    PERFORM sams.check_granted('agent', NEW.container);
    NEW.login := session_user;
    NEW.opened := sams.utc_now();
    NEW.family := split_part(NEW.session_id, '/', 1);
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON sams.sessions
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_session();

CREATE FUNCTION sams.stamp_source() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.lock_family(NEW.container, NEW.family);
    NEW.seq := nextval('sams.sources_seq_seq');
    NEW.login := session_user;
    PERFORM set_config('synchronous_commit', 'on', true);
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON sams.sources
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_source();

-- The family's marks as they are now, under its lock; a login that nobody vouches for adds its own.
CREATE FUNCTION sams.marks_to_stamp(c text, f text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.lock_family(c, f);
    IF NOT sams.vouched('agent', c) THEN
        PERFORM sams.add_source(c, f, sams.login_source());
    END IF;
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('kind', kind, 'name', name, 'origin', origin,
            'first_seen', first_seen) ORDER BY seq), '[]')
        FROM sams.sources WHERE container = c AND family = f
    );
END $$;

CREATE FUNCTION sams.readings_to_stamp(c text, j text, most integer) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE marks jsonb;
BEGIN
    PERFORM FROM sams.jobs WHERE container = c AND job = j FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'snapshot first' USING ERRCODE = 'SM003';
    END IF;
    SELECT coalesce(jsonb_agg(jsonb_build_object('kind', kind, 'name', name, 'origin', origin,
            'first_seen', first_seen) ORDER BY seq), '[]') INTO marks
        FROM (SELECT * FROM sams.readings WHERE container = c AND job = j
              ORDER BY seq LIMIT most) kept;
    IF (SELECT count(*) FROM sams.readings WHERE container = c AND job = j) > most THEN
        marks := marks || jsonb_build_object('kind', 'more', 'name', 'more sources than are kept',
            'origin', NULL, 'first_seen', sams.utc_now());
    END IF;
    IF NOT sams.vouched('dreamer', c) THEN
        marks := marks || sams.login_source();
    END IF;
    RETURN marks;
END $$;

CREATE FUNCTION sams.stamp_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE at_version bigint;
BEGIN
    NEW.login := session_user;
    NEW.date := sams.utc_now();
    NEW.state := 'open';
    NEW.successor := NULL;
    NEW.closed_by := NULL;
    NEW.size := octet_length(NEW.path) + octet_length(NEW.description)
        + octet_length(NEW.content) + 64;
    PERFORM set_config('synchronous_commit', 'on', true);
    IF NEW.kind = 'write' THEN
        NEW.writer := split_part(NEW.session_id, '/', 1);
        NEW.sources := sams.marks_to_stamp(NEW.container, NEW.writer);
        PERFORM FROM sams.sessions s WHERE s.container = NEW.container
            AND s.session_id = NEW.session_id AND s.agent = NEW.agent;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'not the agent of that session' USING ERRCODE = 'SM004';
        END IF;
    ELSE
        PERFORM sams.check_isolation();
        PERFORM sams.check_granted('dreamer', NEW.container);
        NEW.writer := NEW.agent || '/';
        NEW.session_id := NULL;
        NEW.sources := sams.readings_to_stamp(NEW.container, NEW.agent, 100);
    END IF;
    -- ON CONFLICT DO NOTHING would supersede below, and then store nothing in its place.
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.container || ' ' || NEW.id, 0));
    IF EXISTS (SELECT FROM sams.changes WHERE container = NEW.container AND id = NEW.id) THEN
        RAISE EXCEPTION 'that id is taken' USING ERRCODE = 'unique_violation';
    END IF;
    -- Numbered under the lock: what it supersedes comes before it, whatever the caller says.
    NEW.seq := nextval('sams.changes_seq_seq');
    UPDATE sams.changes SET state = 'superseded', successor = NEW.id
        WHERE container = NEW.container AND writer = NEW.writer AND path = NEW.path
            AND state = 'open';
    -- Last, for the line above may have waited for a decision.
    SELECT v.version, v.digest INTO at_version, NEW.base_digest FROM sams.versions v
        WHERE v.container = NEW.container AND v.path = NEW.path AND v.status = 'active';
    IF coalesce(at_version, 0) <> NEW.base_version THEN
        RAISE EXCEPTION 'the version moved' USING ERRCODE = 'SM005',
            DETAIL = NEW.base_version || '/' || coalesce(at_version, 0);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON sams.changes
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_change();

CREATE FUNCTION sams.stamp_note() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE before bigint := 0;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.container, OLD.scope, OLD.session_id, OLD.path)
            IS DISTINCT FROM (NEW.container, NEW.scope, NEW.session_id, NEW.path) THEN
            RAISE EXCEPTION 'a note stays where it is' USING ERRCODE = 'SM006';
        END IF;
        before := OLD.version;
    END IF;
    NEW.version := before + 1;
    NEW.login := session_user;
    NEW.date := sams.utc_now();
    NEW.scope := 'run:' || NEW.session_id;
    NEW.family := split_part(NEW.session_id, '/', 1);
    NEW.sources := sams.marks_to_stamp(NEW.container, NEW.family);
    NEW.labelled := NEW.sources <> '[]'::jsonb;
    NEW.size := octet_length(NEW.path) + octet_length(NEW.description)
        + octet_length(NEW.content) + 64;
    PERFORM FROM sams.sessions s WHERE s.container = NEW.container
        AND s.session_id = NEW.session_id AND s.agent = NEW.agent;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'not the agent of that session' USING ERRCODE = 'SM004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON sams.notes
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_note();

-- A decision closes its change, and what that had superseded, or isn't stored.
CREATE FUNCTION sams.stamp_decision() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE c sams.changes%ROWTYPE;
BEGIN
    PERFORM sams.check_isolation();
    PERFORM sams.check_granted('owner', NEW.container);
    NEW.login := session_user;
    PERFORM set_config('synchronous_commit', 'on', true);
    SELECT * INTO c FROM sams.changes
        WHERE container = NEW.container AND id = NEW.change_id FOR UPDATE;
    IF NOT FOUND OR c.state <> 'open' THEN
        RAISE EXCEPTION 'not open' USING ERRCODE = 'SM007', DETAIL = coalesce(c.state, 'unknown');
    END IF;
    UPDATE sams.changes SET state = NEW.outcome, closed_by = NEW.change_id
        WHERE container = NEW.container AND id = NEW.change_id;
    UPDATE sams.changes SET closed_by = NEW.change_id
        WHERE container = NEW.container AND writer = c.writer AND path = c.path
            AND closed_by IS NULL AND seq < c.seq;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON sams.decisions
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_decision();

CREATE FUNCTION sams.stamp_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    PERFORM sams.check_isolation();
    PERFORM sams.check_granted('owner', NEW.container);
    NEW.login := session_user;
    PERFORM set_config('synchronous_commit', 'on', true);
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON sams.versions
    FOR EACH ROW EXECUTE FUNCTION sams.stamp_version();

-- What is stored stays.
CREATE FUNCTION sams.refuse() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN RAISE EXCEPTION 'only ever added to' USING ERRCODE = 'SM006'; END $$;

CREATE FUNCTION sams.keep_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    IF TG_OP = 'DELETE' OR OLD.closed_by IS NOT NULL
        OR to_jsonb(NEW) - '{state,successor,closed_by}'::text[]
            <> to_jsonb(OLD) - '{state,successor,closed_by}'::text[] THEN
        RAISE EXCEPTION 'a change is immutable' USING ERRCODE = 'SM006';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON sams.changes
    FOR EACH ROW EXECUTE FUNCTION sams.keep_change();

CREATE FUNCTION sams.keep_version() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN
    IF TG_OP = 'DELETE' OR OLD.status <> 'active'
        OR to_jsonb(NEW) - '{status,ended,ended_date,ended_by}'::text[]
            <> to_jsonb(OLD) - '{status,ended,ended_date,ended_by}'::text[] THEN
        RAISE EXCEPTION 'a version is immutable' USING ERRCODE = 'SM006';
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true);
    RETURN NEW;
END $$;
CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON sams.versions
    FOR EACH ROW EXECUTE FUNCTION sams.keep_version();

DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['families', 'sessions', 'sources', 'pins', 'readings', 'jobs', 'texts',
        'handles', 'decisions'] LOOP
        EXECUTE pg_catalog.format('CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON sams.%I '
            'FOR EACH ROW EXECUTE FUNCTION sams.refuse()', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['families', 'sessions', 'sources', 'pins', 'readings', 'jobs', 'texts',
        'handles', 'decisions', 'changes', 'versions', 'notes', 'meta', 'grants', 'store'] LOOP
        EXECUTE pg_catalog.format('CREATE TRIGGER keep_all BEFORE TRUNCATE ON sams.%I '
            'FOR EACH STATEMENT EXECUTE FUNCTION sams.refuse()', t);
    END LOOP;
END $$;
