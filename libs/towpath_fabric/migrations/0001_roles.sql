-- migrate:up
-- One schema per owner, and one role per service with only the grants it needs. Roles belong to the whole cluster, so
-- another database may have made them already. A deployment sets their passwords; the embedded platform trusts its
-- private socket.
DO $$
DECLARE role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['towpath_orchestrator', 'towpath_tas', 'towpath_gateway', 'towpath_log_writer'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
        EXECUTE format('CREATE ROLE %I LOGIN', role_name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      RAISE NOTICE 'role % was made by another database meanwhile', role_name;
    END;
  END LOOP;
END $$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
-- A service compares at its start what is applied with what it knows.
GRANT USAGE ON SCHEMA public TO towpath_orchestrator, towpath_tas, towpath_gateway, towpath_log_writer;
GRANT SELECT ON public.towpath_migration TO towpath_orchestrator, towpath_tas, towpath_gateway, towpath_log_writer;
-- Nothing that a role makes itself is ever found by a function that runs with its owner's rights.
DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$;
CREATE SCHEMA runs;
CREATE SCHEMA tas;
CREATE SCHEMA gateway;
CREATE SCHEMA history;
GRANT USAGE ON SCHEMA runs TO towpath_orchestrator, towpath_tas;
GRANT USAGE ON SCHEMA tas TO towpath_tas, towpath_orchestrator;
GRANT USAGE ON SCHEMA gateway TO towpath_gateway, towpath_orchestrator;
GRANT USAGE ON SCHEMA history TO towpath_log_writer;
-- What a service asks for when it connects, also where a pooler between refuses that (SESSION_SETTINGS of pool.py).
DO $$
DECLARE role_name text; setting text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['towpath_orchestrator', 'towpath_tas', 'towpath_gateway', 'towpath_log_writer'] LOOP
    FOREACH setting IN ARRAY ARRAY['plan_cache_mode = force_generic_plan', 'jit = off', 'enable_seqscan = off',
                                   'search_path = pg_catalog, pg_temp', 'statement_timeout = 30000',
                                   'idle_in_transaction_session_timeout = 20000',
                                   'client_connection_check_interval = 1000'] LOOP
      EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', role_name, current_database(), setting);
    END LOOP;
  END LOOP;
END $$;

-- migrate:down
DO $$
DECLARE role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['towpath_orchestrator', 'towpath_tas', 'towpath_gateway', 'towpath_log_writer'] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET ALL', role_name, current_database());
  END LOOP;
END $$;
REVOKE USAGE ON SCHEMA public FROM towpath_orchestrator, towpath_tas, towpath_gateway, towpath_log_writer;
DROP SCHEMA history, gateway, tas, runs CASCADE;
