-- migrate:up
-- The effect ledger, the audit log, the matrix and the tool registry (design §7, §9). Arguments, facts and claims are kept
-- as text: they are written once and read whole, and jsonb refuses strings that a model may well send (\u0000).

CREATE TABLE tas.project_state (
  project          text PRIMARY KEY,
  policy_version   integer NOT NULL DEFAULT 0,
  registry_version integer NOT NULL DEFAULT 0
);

CREATE TABLE tas.policy_version (
  project    text NOT NULL,
  version    integer NOT NULL,
  digest     text NOT NULL,
  text       text NOT NULL,
  rules      integer NOT NULL,
  source     text NOT NULL,
  note       text NOT NULL,
  applied_by text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (project, version)
);

CREATE TABLE tas.permission_rule (
  project   text NOT NULL,
  version   integer NOT NULL,
  place     integer NOT NULL,
  name      text NOT NULL,
  effect    text NOT NULL,
  tool      text NOT NULL,
  operation text NOT NULL,
  rule      json NOT NULL,
  PRIMARY KEY (project, version, place),
  FOREIGN KEY (project, version) REFERENCES tas.policy_version (project, version)
);

CREATE TABLE tas.tool (
  project     text NOT NULL,
  name        text NOT NULL,
  version     integer NOT NULL,
  digest      text NOT NULL,
  spec        json NOT NULL,
  status      text NOT NULL CHECK (status IN ('accepted', 'pending', 'refused')),
  reason      text NOT NULL,
  toolset     text NOT NULL,
  owner       text NOT NULL,
  worker      text NOT NULL,
  proposed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  decided_at  timestamptz,
  decided_by  text NOT NULL DEFAULT '',
  PRIMARY KEY (project, name, version)
);

-- One row per call, written before the call. `revision` rises by one with every change: whoever changes a row names the
-- revision it has seen, so that a decision made on an outdated picture is never stored.
CREATE TABLE tas.tool_call (
  run_id          uuid NOT NULL,
  execution_id    uuid NOT NULL,
  project         text NOT NULL,
  network         text NOT NULL,
  snapshot_digest text NOT NULL,
  agent_key       text NOT NULL,
  agent_type      text NOT NULL,
  caller          text NOT NULL,
  step            integer NOT NULL,
  call_index      integer NOT NULL,
  tool            text NOT NULL,
  operation       text NOT NULL,
  toolset         text NOT NULL,
  tool_version    integer NOT NULL,
  effect_class    text NOT NULL,
  timeout_ms      integer NOT NULL,
  args            text NOT NULL,
  args_digest     text NOT NULL,
  context         text NOT NULL,
  status          text NOT NULL CHECK (status IN ('requested', 'denied', 'awaiting_approval', 'permitted', 'started',
                                                  'succeeded', 'failed', 'unknown', 'void')),
  fence           integer NOT NULL,
  attempt         integer NOT NULL,
  deadline        timestamptz NOT NULL,
  policy_version  integer NOT NULL,
  rule            text,
  approval_id     uuid,
  approvals       integer NOT NULL,
  claims          text NOT NULL,
  fact            text,
  accepted        text NOT NULL,
  settled_by      text NOT NULL,
  revision        integer NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (run_id, execution_id)
) PARTITION BY RANGE (run_id);
CREATE TABLE tas.tool_call_default PARTITION OF tas.tool_call DEFAULT;
SELECT runs.ensure_partitions('tas.tool_call', 3);

CREATE TABLE tas.approval (
  approval_id    uuid PRIMARY KEY,
  run_id         uuid NOT NULL,
  execution_id   uuid NOT NULL,
  project        text NOT NULL,
  status         text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'consumed', 'void')),
  digest         text NOT NULL,
  bound          text NOT NULL,
  rule           text NOT NULL,
  reason         text NOT NULL,
  requested_by   text NOT NULL,
  expires_at     timestamptz NOT NULL,
  decided_by     text NOT NULL,
  decided_at     timestamptz,
  decided_reason text NOT NULL,
  opened_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX approval_execution ON tas.approval (run_id, execution_id);

CREATE TABLE tas.fence (
  run_id    uuid PRIMARY KEY,
  project   text NOT NULL,
  fence     integer NOT NULL,
  raised_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE tas.rule_count (
  run_id uuid NOT NULL,
  rule   text NOT NULL,
  used   integer NOT NULL,
  PRIMARY KEY (run_id, rule)
) WITH (fillfactor = 70);

CREATE TABLE tas.audit_entry (
  entry_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at             timestamptz NOT NULL DEFAULT clock_timestamp(),
  project        text NOT NULL,
  run_id         uuid,
  execution_id   uuid,
  phase          text NOT NULL,
  verdict        text NOT NULL,
  tool           text NOT NULL,
  operation      text NOT NULL,
  network        text NOT NULL,
  agent_key      text NOT NULL,
  caller         text NOT NULL,
  actor          text NOT NULL,
  rule           text,
  policy_version integer NOT NULL,
  args_digest    text NOT NULL,
  detail         text NOT NULL
);
CREATE INDEX audit_run ON tas.audit_entry (run_id, entry_id) WHERE run_id IS NOT NULL;

-- Pieces of a blob on their way; any replica may take any piece. Losing them costs only sending them again.
CREATE UNLOGGED TABLE tas.blob_piece (
  execution_id uuid NOT NULL,
  digest       text NOT NULL,
  piece        integer NOT NULL,
  data         bytea NOT NULL,
  arrived_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (execution_id, digest, piece)
);

CREATE TYPE tas.call_new AS (
  run_id uuid, execution_id uuid, project text, network text, snapshot_digest text, agent_key text, agent_type text,
  caller text, step integer, call_index integer, tool text, operation text, toolset text, tool_version integer,
  effect_class text, timeout_ms integer, args text, args_digest text, context text, status text, fence integer,
  attempt integer, deadline timestamptz, policy_version integer, rule text, approval_id uuid, approvals integer,
  claims text, fact text, accepted text, settled_by text, revision integer
);
CREATE TYPE tas.call_change AS (
  run_id uuid, execution_id uuid, project text, tool_version integer, effect_class text, timeout_ms integer,
  toolset text, status text, fence integer, attempt integer, deadline timestamptz, policy_version integer, rule text,
  approval_id uuid, approvals integer, claims text, fact text, accepted text, settled_by text, revision integer,
  decides boolean
);
CREATE TYPE tas.audit_new AS (
  always boolean, project text, run_id uuid, execution_id uuid, phase text, verdict text, tool text, operation text,
  network text, agent_key text, caller text, actor text, rule text, policy_version integer, args_digest text,
  detail text
);
CREATE TYPE tas.approval_new AS (
  approval_id uuid, run_id uuid, execution_id uuid, project text, status text, digest text, bound text, rule text,
  reason text, requested_by text, expires_at timestamptz, decided_by text, decided_at timestamptz, decided_reason text
);
CREATE TYPE tas.count_new AS (run_id uuid, rule text, execution_id uuid, base integer);
CREATE TYPE tas.project_seen AS (project text, policy_version integer, registry_version integer);

CREATE FUNCTION tas.stale_projects(seen tas.project_seen[]) RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(s.project), '{}') FROM unnest(seen) s
  WHERE s.policy_version <> coalesce((SELECT p.policy_version FROM tas.project_state p WHERE p.project = s.project), 0)
     OR s.registry_version <> coalesce((SELECT p.registry_version FROM tas.project_state p WHERE p.project = s.project), 0)
$$;

CREATE FUNCTION tas.write_notes(written uuid[], audits tas.audit_new[], approvals tas.approval_new[]) RETURNS void
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

-- Opens ledger rows with their audit entries, approvals and counters: one statement, one commit. A row is left out, with
-- all that belongs to it, where its project's policy or registry has moved on (`stale`), its run's fence is newer, a
-- counter was used meanwhile, or the row exists.
CREATE FUNCTION tas.open_calls(
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

-- Changes ledger rows that still have the revision that the change was made from, with audit entries and approvals.
CREATE FUNCTION tas.change_calls(
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

GRANT SELECT, INSERT, UPDATE ON tas.project_state, tas.tool, tas.tool_call, tas.approval, tas.fence, tas.rule_count
  TO towpath_tas;
GRANT SELECT, INSERT ON tas.policy_version, tas.permission_rule, tas.audit_entry TO towpath_tas;
GRANT SELECT, INSERT, UPDATE, DELETE ON tas.blob_piece TO towpath_tas;
REVOKE EXECUTE ON FUNCTION tas.stale_projects, tas.write_notes, tas.open_calls, tas.change_calls FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.stale_projects, tas.write_notes, tas.open_calls, tas.change_calls TO towpath_tas;

-- migrate:down
DROP FUNCTION tas.open_calls, tas.change_calls, tas.write_notes, tas.stale_projects;
DROP TYPE tas.project_seen, tas.count_new, tas.approval_new, tas.audit_new, tas.call_change, tas.call_new;
DROP TABLE tas.blob_piece, tas.audit_entry, tas.rule_count, tas.fence, tas.approval, tas.tool_call, tas.tool,
  tas.permission_rule, tas.policy_version, tas.project_state;
