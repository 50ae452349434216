-- Row-level security, forced on every table: a login sees and adds rows of the containers that it was
-- granted in that role, and nothing else. The list of containers is read once a statement. `coalesce`
-- is for the planner: it takes a bare ANY for so selective, beside the container that our statements
-- name, that any index seems good enough to it, and one that reads the whole container may be chosen.
-- The schema's owner, as which the functions above run, has a policy of its own and no BYPASSRLS.

DO $$
DECLARE
    t text;
    mine CONSTANT text := 'coalesce(container = ANY (ARRAY(SELECT g.container FROM sams.grants g '
        'WHERE g.login = session_user AND g.role = %L)), false)';
    agents CONSTANT text := pg_catalog.format(mine, 'agent');
    owners CONSTANT text := pg_catalog.format(mine, 'owner');
    -- Whoever is an agent anywhere reads what org's owner published.
    readers CONSTANT text := 'coalesce(container = ANY (ARRAY(SELECT g.container FROM sams.grants g '
        'WHERE g.login = session_user AND g.role IN (''agent'', ''owner'') '
        'UNION ALL SELECT ''org'' FROM sams.grants g '
        'WHERE g.login = session_user AND g.role = ''agent'')), false)';
BEGIN
    FOREACH t IN ARRAY ARRAY['store', 'grants', 'families', 'sessions', 'sources', 'pins', 'jobs',
        'readings', 'meta', 'versions', 'texts', 'handles', 'changes', 'decisions', 'notes',
        'replays', 'lookup', 'partitions'] LOOP
        EXECUTE pg_catalog.format('ALTER TABLE sams.%I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE pg_catalog.format('ALTER TABLE sams.%I FORCE ROW LEVEL SECURITY', t);
        EXECUTE pg_catalog.format('REVOKE ALL ON sams.%I FROM PUBLIC', t);
        EXECUTE pg_catalog.format('CREATE POLICY custodian ON sams.%I TO CURRENT_USER '
            'USING (true) WITH CHECK (true)', t);
    END LOOP;
    CREATE POLICY everyone ON sams.store FOR SELECT USING (true);
    CREATE POLICY own_grants ON sams.grants FOR SELECT
        USING (login = session_user AND who = pg_catalog.quote_ident(session_user)::regrole);
    FOREACH t IN ARRAY ARRAY['families', 'sessions', 'sources', 'changes', 'notes', 'replays'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY agent_reads ON sams.%I FOR SELECT USING (%s)', t, agents);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['sessions', 'sources', 'notes', 'replays'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY agent_adds ON sams.%I FOR INSERT WITH CHECK (%s)', t, agents);
    END LOOP;
    EXECUTE pg_catalog.format('CREATE POLICY agent_adds ON sams.changes FOR INSERT '
        'WITH CHECK (kind = ''write'' AND login = session_user AND %s)', agents);
    EXECUTE pg_catalog.format('CREATE POLICY agent_rewrites ON sams.notes FOR UPDATE '
        'USING (%1$s) WITH CHECK (%1$s)', agents);
    FOREACH t IN ARRAY ARRAY['meta', 'versions', 'texts'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY reads ON sams.%I FOR SELECT USING (%s)', t, readers);
    END LOOP;

    EXECUTE pg_catalog.format('CREATE POLICY dreamer_proposes ON sams.changes FOR INSERT '
        'WITH CHECK (kind = ''proposal'' AND login = session_user AND %s)', pg_catalog.format(mine, 'dreamer'));
    EXECUTE pg_catalog.format('CREATE POLICY dreamer_reads ON sams.changes FOR SELECT '
        'USING (kind = ''proposal'' AND login = session_user AND %s)', pg_catalog.format(mine, 'dreamer'));

    FOREACH t IN ARRAY ARRAY['families', 'sessions', 'sources', 'changes', 'decisions', 'notes',
        'handles', 'readings', 'replays'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY owner_reads ON sams.%I FOR SELECT USING (%s)', t, owners);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['meta', 'versions', 'texts', 'handles', 'decisions'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY owner_adds ON sams.%I FOR INSERT WITH CHECK (%s)', t, owners);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['meta', 'versions'] LOOP
        EXECUTE pg_catalog.format('CREATE POLICY owner_ends ON sams.%I FOR UPDATE '
            'USING (%2$s) WITH CHECK (%2$s)', t, owners);
    END LOOP;
END $$;

-- What the planner knows of values it tells everybody who may read a table, policies or not: EXPLAIN
-- would say which containers there are, and how large. Our statements name whole keys and need no
-- statistics of texts; the search does, over a table that no role may read.
DO $$
DECLARE f record;
BEGIN
    FOR f IN SELECT c.relname, a.attname FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'sams'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
                AND a.atttypid IN ('text'::regtype, 'name'::regtype) AND c.relname <> 'lookup' LOOP
        EXECUTE pg_catalog.format('ALTER TABLE sams.%I ALTER COLUMN %I SET STATISTICS 0',
            f.relname, f.attname);
    END LOOP;
END $$;
