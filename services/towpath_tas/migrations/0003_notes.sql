-- migrate:up
-- What a batch writes beside its calls, each in a function of its own: what is kept of one changes without the others.
CREATE FUNCTION tas.write_audit(written uuid[], audits tas.audit_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tas.audit_entry (project, run_id, execution_id, phase, verdict, tool, operation, network, agent_key, caller,
                               actor, rule, policy_version, args_digest, detail)
    SELECT a.project, a.run_id, a.execution_id, a.phase, a.verdict, a.tool, a.operation, a.network, a.agent_key,
           a.caller, a.actor, a.rule, a.policy_version, a.args_digest, a.detail
    FROM unnest(audits) a WHERE a.always OR a.execution_id = ANY (written);
END $$;

CREATE FUNCTION tas.write_approvals(written uuid[], approvals tas.approval_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(approvals) > 0 THEN
    INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,
                              requested_by, expires_at, decided_by, decided_at, decided_reason)
      SELECT a.* FROM unnest(approvals) a WHERE a.execution_id = ANY (written)
      ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by,
        decided_at = excluded.decided_at, decided_reason = excluded.decided_reason;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION tas.write_notes(written uuid[], audits tas.audit_new[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tas.write_audit(written, audits);
  PERFORM tas.write_approvals(written, approvals);
END $$;

CREATE FUNCTION tas.lock_counts(counts tas.count_new[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  used_up uuid[] := '{}';
BEGIN
  IF cardinality(counts) > 0 THEN
    INSERT INTO tas.rule_count (run_id, rule, used)
      SELECT DISTINCT k.run_id, k.rule, 0 FROM unnest(counts) k ORDER BY 1, 2 ON CONFLICT DO NOTHING;
    PERFORM FROM tas.rule_count u WHERE (u.run_id, u.rule) IN (SELECT k.run_id, k.rule FROM unnest(counts) k)
      ORDER BY u.run_id, u.rule FOR UPDATE;
    SELECT coalesce(array_agg(k.execution_id), '{}') INTO used_up FROM unnest(counts) k
      WHERE k.base <> (SELECT u.used FROM tas.rule_count u WHERE u.run_id = k.run_id AND u.rule = k.rule);
  END IF;
  RETURN used_up;
END $$;

CREATE FUNCTION tas.add_counts(written uuid[], counts tas.count_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(counts) > 0 THEN
    UPDATE tas.rule_count u SET used = u.used + k.calls
      FROM (SELECT c.run_id, c.rule, count(*) AS calls FROM unnest(counts) c WHERE c.execution_id = ANY (written)
            GROUP BY c.run_id, c.rule) k
      WHERE u.run_id = k.run_id AND u.rule = k.rule;
  END IF;
END $$;

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

REVOKE EXECUTE ON FUNCTION tas.write_audit, tas.write_approvals, tas.lock_counts, tas.add_counts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.write_audit, tas.write_approvals, tas.lock_counts, tas.add_counts TO towpath_tas;

-- migrate:down
CREATE OR REPLACE FUNCTION tas.open_calls(
  calls tas.call_new[], audits tas.audit_new[], approvals tas.approval_new[], counts tas.count_new[],
  seen tas.project_seen[], OUT written uuid[], OUT stale text[], OUT at timestamptz
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  used_up uuid[] := '{}';
BEGIN
  -- Shared with other batches, exclusive for raise_fence: no row is opened behind the back of a fence being raised.
  PERFORM pg_advisory_xact_lock_shared(run_key) FROM (
    SELECT DISTINCT uuid_hash_extended(c.run_id, 7026115) AS run_key FROM unnest(calls) c) runs;
  stale := tas.stale_projects(seen);
  IF cardinality(counts) > 0 THEN
    INSERT INTO tas.rule_count (run_id, rule, used)
      SELECT DISTINCT k.run_id, k.rule, 0 FROM unnest(counts) k ORDER BY 1, 2 ON CONFLICT DO NOTHING;
    PERFORM FROM tas.rule_count u WHERE (u.run_id, u.rule) IN (SELECT k.run_id, k.rule FROM unnest(counts) k)
      ORDER BY u.run_id, u.rule FOR UPDATE;
    SELECT coalesce(array_agg(k.execution_id), '{}') INTO used_up FROM unnest(counts) k
      WHERE k.base <> (SELECT u.used FROM tas.rule_count u WHERE u.run_id = k.run_id AND u.rule = k.rule);
  END IF;
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
  IF cardinality(counts) > 0 THEN
    UPDATE tas.rule_count u SET used = u.used + k.calls
      FROM (SELECT c.run_id, c.rule, count(*) AS calls FROM unnest(counts) c WHERE c.execution_id = ANY (written)
            GROUP BY c.run_id, c.rule) k
      WHERE u.run_id = k.run_id AND u.rule = k.rule;
  END IF;
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

CREATE OR REPLACE FUNCTION tas.write_notes(written uuid[], audits tas.audit_new[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tas.audit_entry (project, run_id, execution_id, phase, verdict, tool, operation, network, agent_key, caller,
                               actor, rule, policy_version, args_digest, detail)
    SELECT a.project, a.run_id, a.execution_id, a.phase, a.verdict, a.tool, a.operation, a.network, a.agent_key,
           a.caller, a.actor, a.rule, a.policy_version, a.args_digest, a.detail
    FROM unnest(audits) a WHERE a.always OR a.execution_id = ANY (written);
  IF cardinality(approvals) > 0 THEN
    INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,
                              requested_by, expires_at, decided_by, decided_at, decided_reason)
      SELECT a.* FROM unnest(approvals) a WHERE a.execution_id = ANY (written)
      ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by,
        decided_at = excluded.decided_at, decided_reason = excluded.decided_reason;
  END IF;
END $$;

DROP FUNCTION tas.write_audit, tas.write_approvals, tas.lock_counts, tas.add_counts;
