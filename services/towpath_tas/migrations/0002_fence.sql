-- migrate:up
-- Changes ledger rows that still have the revision that the change was made from, with audit entries and approvals. What
-- lets a call start (permit, claim) is left out where its run's fence is newer, also one that is being raised (design §7).
CREATE OR REPLACE FUNCTION tas.change_calls(
  changes tas.call_change[], audits tas.audit_new[], approvals tas.approval_new[], seen tas.project_seen[],
  OUT written uuid[], OUT stale text[], OUT at timestamptz
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  -- Shared with other batches, exclusive for raise_fence; in one order, so that batches can't lock each other out.
  PERFORM pg_advisory_xact_lock_shared(run_key) FROM (
    SELECT DISTINCT uuid_hash_extended(c.run_id, 7026115) AS run_key FROM unnest(changes) c
    WHERE c.status IN ('permitted', 'started') ORDER BY 1) runs;
  stale := tas.stale_projects(seen);
  WITH changed AS (
    UPDATE tas.tool_call t SET
        tool_version = c.tool_version, effect_class = c.effect_class, timeout_ms = c.timeout_ms, toolset = c.toolset,
        status = c.status, fence = c.fence, attempt = c.attempt, deadline = c.deadline,
        policy_version = c.policy_version, rule = c.rule, approval_id = c.approval_id, approvals = c.approvals,
        claims = c.claims, fact = c.fact, accepted = c.accepted, settled_by = c.settled_by, revision = c.revision,
        updated_at = clock_timestamp()
      FROM unnest(changes) c
      WHERE t.run_id = c.run_id AND t.execution_id = c.execution_id AND t.revision = c.revision - 1
        AND NOT (c.decides AND c.project = ANY (stale))
        AND (c.status NOT IN ('permitted', 'started')
             OR coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence)
      RETURNING t.execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM changed;
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

-- migrate:down
CREATE OR REPLACE FUNCTION tas.change_calls(
  changes tas.call_change[], audits tas.audit_new[], approvals tas.approval_new[], seen tas.project_seen[],
  OUT written uuid[], OUT stale text[], OUT at timestamptz
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  stale := tas.stale_projects(seen);
  WITH changed AS (
    UPDATE tas.tool_call t SET
        tool_version = c.tool_version, effect_class = c.effect_class, timeout_ms = c.timeout_ms, toolset = c.toolset,
        status = c.status, fence = c.fence, attempt = c.attempt, deadline = c.deadline,
        policy_version = c.policy_version, rule = c.rule, approval_id = c.approval_id, approvals = c.approvals,
        claims = c.claims, fact = c.fact, accepted = c.accepted, settled_by = c.settled_by, revision = c.revision,
        updated_at = clock_timestamp()
      FROM unnest(changes) c
      WHERE t.run_id = c.run_id AND t.execution_id = c.execution_id AND t.revision = c.revision - 1
        AND NOT (c.decides AND c.project = ANY (stale))
      RETURNING t.execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM changed;
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;
