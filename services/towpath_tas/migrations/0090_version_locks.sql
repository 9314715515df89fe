-- migrate:up
-- A version that has moved holds from its commit on (design §7): what was decided under the one before is stored before
-- that commit, or not at all. Who stores decisions shares the project's lock until its own commit; who moves a version
-- has it alone. Always taken last of the advisory locks, and before any row: run keys, project keys, rows.
CREATE FUNCTION tas.project_key(project text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended(project, 7026116)
$$;

CREATE OR REPLACE FUNCTION tas.stale_projects(seen tas.project_seen[]) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(project_key) FROM (
    SELECT DISTINCT tas.project_key(s.project) AS project_key FROM unnest(seen) s ORDER BY 1) projects;
  RETURN (  -- a statement of its own: it sees what was committed while the lock was waited for
    SELECT coalesce(array_agg(s.project), '{}') FROM unnest(seen) s
    WHERE s.policy_version <> coalesce((SELECT p.policy_version FROM tas.project_state p WHERE p.project = s.project), 0)
       OR s.registry_version
          <> coalesce((SELECT p.registry_version FROM tas.project_state p WHERE p.project = s.project), 0));
END $$;

CREATE FUNCTION tas.await_decisions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(tas.project_key(NEW.project));
  RETURN NEW;
END $$;
CREATE TRIGGER await_decisions BEFORE UPDATE OF policy_version, registry_version ON tas.project_state
  FOR EACH ROW EXECUTE FUNCTION tas.await_decisions();

-- As before, but what is refused for its version leaves the counters alone: it may name another window of a rate.
CREATE OR REPLACE FUNCTION tas.open_calls(
  calls tas.call_new[], audits tas.audit_new[], approvals tas.approval_new[], counts tas.count_new[],
  seen tas.project_seen[], OUT written uuid[], OUT stale text[], OUT at timestamptz
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  used_up uuid[];
BEGIN
  -- Shared with other batches, exclusive for raise_fence: no row is opened behind the back of a fence being raised.
  PERFORM pg_advisory_xact_lock_shared(run_key) FROM (
    SELECT DISTINCT uuid_hash_extended(c.run_id, 7026115) AS run_key FROM unnest(calls) c ORDER BY 1) runs;
  stale := tas.stale_projects(seen);
  IF cardinality(stale) > 0 THEN
    counts := ARRAY(SELECT k FROM unnest(counts) k WHERE k.execution_id IN (
                      SELECT c.execution_id FROM unnest(open_calls.calls) c WHERE c.project <> ALL (stale)));
  END IF;
  used_up := tas.lock_counts(counts);
  WITH opened AS (
    INSERT INTO tas.tool_call (
        run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step, call_index, tool,
        operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status, fence, attempt,
        deadline, policy_version, rule, approval_id, approvals, claims, fact, accepted, settled_by, revision)
      SELECT c.* FROM unnest(calls) c
      WHERE c.project <> ALL (stale) AND c.execution_id <> ALL (used_up)
        AND (c.status = 'void'
             OR coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence)
      ON CONFLICT (run_id, execution_id) DO NOTHING
      RETURNING execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM opened;
  PERFORM tas.add_counts(written, counts);
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

REVOKE EXECUTE ON FUNCTION tas.project_key, tas.await_decisions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.project_key TO towpath_tas;

-- migrate:down
CREATE OR REPLACE FUNCTION tas.open_calls(
  calls tas.call_new[], audits tas.audit_new[], approvals tas.approval_new[], counts tas.count_new[],
  seen tas.project_seen[], OUT written uuid[], OUT stale text[], OUT at timestamptz
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  used_up uuid[];
BEGIN
  -- Shared with other batches, exclusive for raise_fence: no row is opened behind the back of a fence being raised.
  PERFORM pg_advisory_xact_lock_shared(run_key) FROM (
    SELECT DISTINCT uuid_hash_extended(c.run_id, 7026115) AS run_key FROM unnest(calls) c) runs;
  stale := tas.stale_projects(seen);
  used_up := tas.lock_counts(counts);
  WITH opened AS (
    INSERT INTO tas.tool_call (
        run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step, call_index, tool,
        operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status, fence, attempt,
        deadline, policy_version, rule, approval_id, approvals, claims, fact, accepted, settled_by, revision)
      SELECT c.* FROM unnest(calls) c
      WHERE c.project <> ALL (stale) AND c.execution_id <> ALL (used_up)
        AND (c.status = 'void'
             OR coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence)
      ON CONFLICT (run_id, execution_id) DO NOTHING
      RETURNING execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM opened;
  PERFORM tas.add_counts(written, counts);
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

CREATE OR REPLACE FUNCTION tas.stale_projects(seen tas.project_seen[]) RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(s.project), '{}') FROM unnest(seen) s
  WHERE s.policy_version <> coalesce((SELECT p.policy_version FROM tas.project_state p WHERE p.project = s.project), 0)
     OR s.registry_version <> coalesce((SELECT p.registry_version FROM tas.project_state p WHERE p.project = s.project), 0)
$$;
DROP TRIGGER await_decisions ON tas.project_state;
DROP FUNCTION tas.await_decisions, tas.project_key;
