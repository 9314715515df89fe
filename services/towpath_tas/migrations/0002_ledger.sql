-- migrate:up
-- Policies, tools, and the ledger of calls with their approvals and counters. Arguments, facts and claims are kept as
-- text: they are written once and read whole, and jsonb refuses strings that a model may well send (\u0000).
--
-- Locks are taken in one order, so that batches can't lock each other out: run keys, project keys, rows.

-- POLICIES AND TOOLS

CREATE TABLE tas.project_state (
  project          text PRIMARY KEY,
  policy_version   integer NOT NULL DEFAULT 0,
  registry_version integer NOT NULL DEFAULT 0
);

-- `rules_digest` is that of the rules: nothing is permitted by others, and each decision is recorded with the one it used.
CREATE TABLE tas.policy_version (
  project      text NOT NULL,
  version      integer NOT NULL,
  digest       text NOT NULL,
  text         text NOT NULL,
  rules        integer NOT NULL,
  source       text NOT NULL,
  note         text NOT NULL,
  applied_by   text NOT NULL,
  applied_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  rules_digest text NOT NULL,
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

-- A second policy beside the one in force, evaluated for live calls and never obeyed. The last one of a project is kept
-- when it is switched off, so that what it found can still be read; `since_entry` is where its findings begin.
CREATE TABLE tas.shadow_policy (
  project     text PRIMARY KEY,
  active      boolean NOT NULL,
  digest      text NOT NULL,
  rules       json NOT NULL,
  source      text NOT NULL,
  note        text NOT NULL,
  set_by      text NOT NULL,
  set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  since_entry bigint NOT NULL
);

CREATE TABLE tas.tool (
  project     text NOT NULL,
  name        text NOT NULL,
  version     integer NOT NULL,
  digest      text NOT NULL,
  spec        json NOT NULL,
  chars       integer NOT NULL DEFAULT 0, -- of the spec: what a project may have in all is bounded
  status      text NOT NULL CHECK (status IN ('accepted', 'pending', 'refused')),
  reason      text NOT NULL,
  toolset     text NOT NULL,
  owner       text NOT NULL,
  worker      text NOT NULL,
  proposed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  decided_at  timestamptz,
  decided_by  text NOT NULL DEFAULT '',
  -- A version that waits, or was refused, while it is what the tool's server offers: the accepted one is not there any
  -- more, so its calls are held (core/registry.py, `drifted`).
  held        boolean NOT NULL DEFAULT false,
  withdrawn   boolean NOT NULL DEFAULT false, -- an accepted version of a tool that a person took out of the project
  PRIMARY KEY (project, name, version)
);

-- Of the versions of a tool most were in force before; nothing that is asked often reads these.
CREATE INDEX tool_not_plain ON tas.tool (project, name, version) WHERE status <> 'accepted' OR withdrawn OR held;

-- What is paused now: a row for each open switch. Who set it, when and why stays in the audit. A change moves the
-- project's registry version, so that no decision made under other switches is stored.
CREATE TABLE tas.switch (
  project   text NOT NULL,
  kind      text NOT NULL CHECK (kind IN ('project', 'network', 'tool', 'caller')),
  name      text NOT NULL,
  switch_id uuid NOT NULL,
  reason    text NOT NULL,
  paused_by text NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (project, kind, name)
);

-- Worker processes, by what they say of themselves every few seconds: a row for each toolset that one serves. Nothing but
-- `heard_at`, `calls` and `idle` changes then, and no index has these. Rows are deleted when others begin.
CREATE TABLE tas.worker (
  project    text NOT NULL,
  toolset    text NOT NULL,
  worker_id  text NOT NULL,                     -- of one process, from its start to its end
  name       text NOT NULL,
  host       text NOT NULL,
  version    text NOT NULL,
  slots      integer NOT NULL,
  calls      integer NOT NULL,
  idle       boolean NOT NULL,
  started_at timestamptz NOT NULL,
  heard_at   timestamptz NOT NULL,
  drained_at timestamptz,                       -- since then it is to take no new calls
  drained_by text NOT NULL DEFAULT '',
  reason     text NOT NULL DEFAULT '',
  PRIMARY KEY (project, toolset, worker_id)
) WITH (fillfactor = 50);

-- What tool access reads of the runs: the networks in force, to warn of a policy that names agents nobody has; and what a
-- run was asked to do, in the caller's own words, to tell where a value of a call comes from. The first event and no
-- other, as text, since json may hold what Postgres can't take apart (\u0000).
CREATE VIEW tas.network_spec AS
  SELECT DISTINCT ON (n.project, n.name) n.project, n.name AS network, n.version, n.spec::text AS spec
  FROM runs.network_version n ORDER BY n.project, n.name, n.version DESC;
CREATE VIEW tas.run_task AS
  SELECT e.run_id, e.event::text AS created FROM runs.run_event e WHERE e.seq = 1 AND e.type = 'run_created';

-- What other agents and internal tools have answered a run behind a place in its log, and which agents it has asked: the
-- events of the index run_answer, by the same condition. The log has an answer before a model sees it. The row of
-- an internal call gets it later, and an answer to no call has no row. A function, since its plan is kept: making one for
-- all partitions takes longer than looking. STRICT: without a place there is nothing to look for.
CREATE FUNCTION tas.answers_of_run(of_run uuid, behind bigint, at_most bigint)
RETURNS TABLE (seq bigint, event text) LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT e.seq, e.event::text FROM runs.run_event e
    WHERE e.run_id = of_run AND e.seq > behind AND (e.type IN ('child_started', 'child_ended', 'note_given')
      OR e.type = 'tool_call_finished' AND position('"worker":"platform"' IN e.event::text) > 0)
    ORDER BY e.seq LIMIT at_most;
END $$;

-- CALLS

-- One row per call, written before the call. `revision` rises by one with every change: whoever changes a row names the
-- revision it has seen, so that a decision made from an outdated row is never stored. `asked_args` and their digest are
-- what the run asks for where `edited_by` has changed the call; then `args` is what runs. A row that is erased (with its
-- run) says which call it was and how it ended, and never changes any more.
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
  asked_args      text,
  asked_digest    text,
  edited_by       text,
  erased_at       timestamptz,
  PRIMARY KEY (run_id, execution_id)
) PARTITION BY RANGE (run_id);
CREATE TABLE tas.tool_call_default PARTITION OF tas.tool_call DEFAULT WITH (fillfactor = 50);
SELECT runs.ensure_partitions('tas.tool_call', 3);

-- Calls of a run below its fence start no more.
CREATE TABLE tas.fence (
  run_id    uuid PRIMARY KEY,
  project   text NOT NULL,
  fence     integer NOT NULL,
  raised_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A database that was restored from a backup, and the runs that were not final in it: what they did since then is not known,
-- so a person is asked before each of their calls that is not pure. An operator adds rows; a run's goes when it is erased.
CREATE TABLE tas.restore (
  lost_since  timestamptz PRIMARY KEY,
  restored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  restored_by text NOT NULL,
  runs        bigint NOT NULL,
  calls       bigint NOT NULL
);
CREATE TABLE tas.restored_run (
  run_id     uuid PRIMARY KEY,
  project    text NOT NULL,
  lost_since timestamptz NOT NULL REFERENCES tas.restore (lost_since)
);
CREATE INDEX restored_run_project ON tas.restored_run (project);

-- Approvals by one person or several, also of calls that a person has changed.
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
  opened_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  args           text NOT NULL DEFAULT '',
  gate_type      text NOT NULL DEFAULT 'approval' CHECK (gate_type IN ('approval', 'manual')),
  role           text NOT NULL DEFAULT 'approver',
  quorum         integer NOT NULL DEFAULT 1 CHECK (quorum >= 1),
  on_expiry      text NOT NULL DEFAULT 'deny' CHECK (on_expiry IN ('deny', 'escalate')),
  revisions      integer NOT NULL DEFAULT 0,
  edited_by      text NOT NULL DEFAULT ''
);
CREATE INDEX approval_execution ON tas.approval (run_id, execution_id);

-- A person's decision, never changed. Nobody decides the same twice about one approval.
CREATE TABLE tas.approval_vote (
  approval_id uuid NOT NULL REFERENCES tas.approval (approval_id),
  actor       text NOT NULL,
  verdict     text NOT NULL CHECK (verdict IN ('approved', 'denied', 'edited')),
  reason      text NOT NULL,
  digest      text NOT NULL,
  at          timestamptz NOT NULL,
  key_prefix  text NOT NULL DEFAULT '',
  PRIMARY KEY (approval_id, actor, verdict)
);

-- How often a run has used a limited rule.
CREATE TABLE tas.rule_count (
  run_id uuid NOT NULL,
  rule   text NOT NULL,
  used   integer NOT NULL,
  PRIMARY KEY (run_id, rule)
) WITH (fillfactor = 70);

-- Rates: how many calls a rule has let through in the current window of a whole project. One row per rule, used again for
-- every window. The windows are those of Postgres's clock, so that replicas agree. The project's quota of calls has a row
-- too, under a name that no rule may have; `postponed` counts the calls of the window that it had no room for.
CREATE TABLE tas.rate_count (
  project   text NOT NULL,
  rule      text NOT NULL,
  per_s     integer NOT NULL,
  window_no bigint NOT NULL,
  used      integer NOT NULL,
  postponed integer NOT NULL DEFAULT 0,
  PRIMARY KEY (project, rule)
) WITH (fillfactor = 70);

-- Pieces of a blob on their way; any replica may take any piece. Losing them costs only sending them again.
CREATE UNLOGGED TABLE tas.blob_piece (
  execution_id uuid NOT NULL,
  digest       text NOT NULL,
  piece        integer NOT NULL,
  data         bytea NOT NULL,
  arrived_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (execution_id, digest, piece)
);

-- WHAT A BATCH WRITES: one statement, one commit

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
-- `voter`, `vote`, `vote_at` and `voter_key` are the decision that this change of an approval takes in, if any; with
-- `edits` the arguments of the approval become those of its call.
CREATE TYPE tas.approval_new AS (
  approval_id uuid, run_id uuid, execution_id uuid, project text, status text, digest text, bound text, rule text,
  reason text, requested_by text, expires_at timestamptz, decided_by text, decided_at timestamptz, decided_reason text,
  args text, gate_type text, role text, quorum integer, on_expiry text, revisions integer, edited_by text,
  voter text, vote text, vote_reason text, vote_at timestamptz, edits boolean, args_digest text,
  voter_key text
);
-- A count with `per_s` is one use of a rate of `calls` by a project; the others are uses of a limit by a run.
CREATE TYPE tas.count_new AS (
  run_id uuid, rule text, execution_id uuid, base integer, project text, per_s integer, calls integer
);
CREATE TYPE tas.project_seen AS (project text, policy_version integer, registry_version integer);

-- A policy or registry version that has moved holds from its commit on: what was decided under the one before is stored
-- before that commit, or not at all. Who stores decisions shares the project's lock until its own commit; who moves a
-- version has it alone.
CREATE FUNCTION tas.project_key(project text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtextextended(project, 7026116)
$$;

CREATE FUNCTION tas.stale_projects(seen tas.project_seen[]) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
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

CREATE FUNCTION tas.rate_window(per_s integer, at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT floor(extract(epoch FROM at) / per_s)::bigint
$$;

-- Locks counters, those of runs before those of projects, each in one order, and names the calls that may not use them: a
-- run's counter must stand where the decision saw it, a project's rate must have room.
CREATE FUNCTION tas.lock_counts(counts tas.count_new[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  used_up uuid[] := '{}';
  rates tas.count_new[];
  began timestamptz;
BEGIN
  IF cardinality(counts) = 0 THEN
    RETURN used_up;
  END IF;
  INSERT INTO tas.rule_count (run_id, rule, used)
    SELECT DISTINCT k.run_id, k.rule, 0 FROM unnest(counts) k WHERE k.per_s IS NULL ORDER BY 1, 2 ON CONFLICT DO NOTHING;
  PERFORM FROM tas.rule_count u
    WHERE (u.run_id, u.rule) IN (SELECT k.run_id, k.rule FROM unnest(counts) k WHERE k.per_s IS NULL)
    ORDER BY u.run_id, u.rule FOR UPDATE;
  SELECT coalesce(array_agg(k.execution_id), '{}') INTO used_up FROM unnest(counts) k
    WHERE k.per_s IS NULL
      AND k.base <> (SELECT u.used FROM tas.rule_count u WHERE u.run_id = k.run_id AND u.rule = k.rule);
  SELECT array_agg(k) INTO rates FROM unnest(counts) k WHERE k.per_s IS NOT NULL;
  IF rates IS NULL THEN
    RETURN used_up;
  END IF;
  INSERT INTO tas.rate_count (project, rule, per_s, window_no, used)
    SELECT DISTINCT ON (k.project, k.rule) k.project, k.rule, k.per_s, 0, 0 FROM unnest(rates) k
    ORDER BY k.project, k.rule ON CONFLICT DO NOTHING;
  PERFORM FROM tas.rate_count r WHERE (r.project, r.rule) IN (SELECT k.project, k.rule FROM unnest(rates) k)
    ORDER BY r.project, r.rule FOR UPDATE;
  began := clock_timestamp();  -- after the locks: whoever waited for them may have crossed into the next window
  UPDATE tas.rate_count r SET per_s = k.per_s, window_no = tas.rate_window(k.per_s, began), used = 0
    FROM (SELECT DISTINCT ON (m.project, m.rule) m.project, m.rule, m.per_s FROM unnest(rates) m
          ORDER BY m.project, m.rule) k
    WHERE r.project = k.project AND r.rule = k.rule
      AND (r.per_s <> k.per_s OR r.window_no <> tas.rate_window(k.per_s, began));
  RETURN used_up || coalesce((
    SELECT array_agg(n.execution_id) FROM (
      SELECT k.execution_id, k.calls, r.used + row_number() OVER (PARTITION BY k.project, k.rule ORDER BY k.place) AS place
      FROM unnest(rates) WITH ORDINALITY k (run_id, rule, execution_id, base, project, per_s, calls, place)
      JOIN tas.rate_count r ON r.project = k.project AND r.rule = k.rule) n
    WHERE n.place > n.calls), '{}');
END $$;

-- The quota of tool calls a minute: a call that is about to be let through, and `until` when it is to be asked for again,
-- where the minute has no room for it. Those that come on top are spread over the minutes that follow, as many to each as
-- one has room for, but not beyond ten: whoever set a larger limit may have died before the runs were told of it. A call
-- that has a row had its place. The platform's own tools cost nothing outside, and are free.
CREATE TYPE tas.quota_place AS (execution_id uuid, project text, calls integer, until timestamptz);

CREATE FUNCTION tas.quota_places(calls tas.call_new[]) RETURNS tas.quota_place[] LANGUAGE plpgsql AS $$
DECLARE
  asking tas.quota_place[];
  minute bigint;
BEGIN
  SELECT array_agg(ROW(c.execution_id, c.project, q.tool_calls_per_minute, NULL)::tas.quota_place
                   ORDER BY c.run_id, c.execution_id) INTO asking
    FROM unnest(calls) c JOIN runs.project_quota q ON q.project = c.project
    WHERE q.tool_calls_per_minute IS NOT NULL AND c.status IN ('requested', 'awaiting_approval', 'permitted')
      AND c.toolset <> 'platform'
      AND NOT EXISTS (SELECT FROM tas.tool_call t WHERE t.run_id = c.run_id AND t.execution_id = c.execution_id);
  IF asking IS NULL THEN
    RETURN '{}';
  END IF;
  INSERT INTO tas.rate_count (project, rule, per_s, window_no, used)
    SELECT DISTINCT a.project, 'quota of calls', 60, 0, 0 FROM unnest(asking) a ORDER BY 1 ON CONFLICT DO NOTHING;
  PERFORM FROM tas.rate_count r WHERE r.rule = 'quota of calls' AND r.project IN (SELECT a.project FROM unnest(asking) a)
    ORDER BY r.project FOR UPDATE;
  minute := tas.rate_window(60, clock_timestamp());  -- after the locks, as above
  UPDATE tas.rate_count r SET window_no = minute, used = 0, postponed = 0
    WHERE r.rule = 'quota of calls' AND r.window_no <> minute AND r.project IN (SELECT a.project FROM unnest(asking) a);
  RETURN ARRAY(
    SELECT ROW(n.execution_id, n.project, n.calls, CASE WHEN n.place > n.room THEN
        to_timestamp(60 * (minute + 1 + least((n.postponed + n.place - n.room - 1) / n.calls, 9))) END)::tas.quota_place
    FROM (
      SELECT a.execution_id, a.project, a.calls, r.postponed, greatest(a.calls - r.used, 0) AS room,
             row_number() OVER (PARTITION BY a.project ORDER BY a.place) AS place
      FROM unnest(asking) WITH ORDINALITY a (execution_id, project, calls, until, place)
      JOIN tas.rate_count r ON r.project = a.project AND r.rule = 'quota of calls') n);
END $$;

CREATE FUNCTION tas.add_quota_places(written uuid[], places tas.quota_place[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(places) > 0 THEN
    UPDATE tas.rate_count r SET used = r.used + k.used, postponed = r.postponed + k.postponed
      FROM (SELECT p.project, count(*) FILTER (WHERE p.until IS NULL AND p.execution_id = ANY (written)) AS used,
                   count(p.until) AS postponed
            FROM unnest(places) p GROUP BY p.project) k
      WHERE r.project = k.project AND r.rule = 'quota of calls';
  END IF;
END $$;

CREATE FUNCTION tas.add_counts(written uuid[], counts tas.count_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(counts) > 0 THEN
    UPDATE tas.rule_count u SET used = u.used + k.calls
      FROM (SELECT c.run_id, c.rule, count(*) AS calls FROM unnest(counts) c
            WHERE c.per_s IS NULL AND c.execution_id = ANY (written) GROUP BY c.run_id, c.rule) k
      WHERE u.run_id = k.run_id AND u.rule = k.rule;
    UPDATE tas.rate_count r SET used = r.used + k.calls
      FROM (SELECT c.project, c.rule, count(*) AS calls FROM unnest(counts) c
            WHERE c.per_s IS NOT NULL AND c.execution_id = ANY (written) GROUP BY c.project, c.rule) k
      WHERE r.project = k.project AND r.rule = k.rule;
  END IF;
END $$;

CREATE FUNCTION tas.write_approvals(written uuid[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(approvals) = 0 THEN
    RETURN;
  END IF;
  INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,
                            requested_by, expires_at, decided_by, decided_at, decided_reason, args, gate_type, role,
                            quorum, on_expiry, revisions, edited_by)
    SELECT a.approval_id, a.run_id, a.execution_id, a.project, a.status, a.digest, a.bound, a.rule, a.reason,
           a.requested_by, a.expires_at, a.decided_by, a.decided_at, a.decided_reason, a.args, a.gate_type, a.role,
           a.quorum, a.on_expiry, a.revisions, a.edited_by
    FROM unnest(approvals) a WHERE a.execution_id = ANY (written)
    ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by,
      decided_at = excluded.decided_at, decided_reason = excluded.decided_reason;
  INSERT INTO tas.approval_vote (approval_id, actor, verdict, reason, digest, at, key_prefix)
    SELECT a.approval_id, a.voter, a.vote, a.vote_reason, a.digest, a.vote_at, a.voter_key
    FROM unnest(approvals) a WHERE a.execution_id = ANY (written) AND a.voter IS NOT NULL;
  UPDATE tas.tool_call t SET
      args = a.args, args_digest = a.args_digest, edited_by = a.edited_by,
      asked_args = coalesce(t.asked_args, t.args), asked_digest = coalesce(t.asked_digest, t.args_digest)
    FROM unnest(write_approvals.approvals) a
    WHERE a.edits AND a.execution_id = ANY (written) AND t.run_id = a.run_id AND t.execution_id = a.execution_id;
END $$;

CREATE FUNCTION tas.write_notes(written uuid[], audits tas.audit_new[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tas.write_audit(written, audits);
  PERFORM tas.write_approvals(written, approvals);
END $$;

-- Opens ledger rows with their audit entries, approvals and counters. A row is left out, with all that belongs to it, where
-- its project's policy or registry has moved on (`stale`), its run's fence is newer or it was erased, a counter was used
-- meanwhile, or the row exists. What is refused for its version leaves the counters alone: it may name another window of a rate.
-- So is what the quota of its project has no room for: `postponed` tells, and `postponed_until` when it is to be asked for again.
CREATE FUNCTION tas.open_calls(
  calls tas.call_new[], audits tas.audit_new[], approvals tas.approval_new[], counts tas.count_new[],
  seen tas.project_seen[], OUT written uuid[], OUT stale text[], OUT at timestamptz, OUT postponed uuid[],
  OUT postponed_until timestamptz[]
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  used_up uuid[];
  places tas.quota_place[];
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
  places := tas.quota_places(ARRAY(
    SELECT c FROM unnest(calls) c WHERE c.project <> ALL (stale) AND c.execution_id <> ALL (used_up)
      AND coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence));
  SELECT coalesce(array_agg(p.execution_id), '{}'), coalesce(array_agg(p.until), '{}') INTO postponed, postponed_until
    FROM unnest(places) p WHERE p.until IS NOT NULL;
  WITH opened AS (
    INSERT INTO tas.tool_call (
        run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step, call_index, tool,
        operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status, fence, attempt,
        deadline, policy_version, rule, approval_id, approvals, claims, fact, accepted, settled_by, revision)
      SELECT c.* FROM unnest(calls) c
      WHERE c.project <> ALL (stale) AND c.execution_id <> ALL (used_up) AND c.execution_id <> ALL (postponed)
        AND NOT EXISTS (SELECT FROM runs.run r WHERE r.run_id = c.run_id AND r.erased_at IS NOT NULL)
        AND (c.status = 'void'
             OR coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence)
      ON CONFLICT (run_id, execution_id) DO NOTHING
      RETURNING execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM opened;
  PERFORM tas.add_counts(written, counts);
  PERFORM tas.add_quota_places(written, places);
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

-- Changes ledger rows that still have the revision that the change was made from, with audit entries and approvals. What
-- lets a call start (permit, claim) is left out where its run's fence is newer, also one that is being raised.
CREATE FUNCTION tas.change_calls(
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
        AND t.erased_at IS NULL
        AND NOT (c.decides AND c.project = ANY (stale))
        AND (c.status NOT IN ('permitted', 'started')
             OR coalesce((SELECT f.fence FROM tas.fence f WHERE f.run_id = c.run_id), c.fence) <= c.fence)
      RETURNING t.execution_id
  ) SELECT coalesce(array_agg(execution_id), '{}') INTO written FROM changed;
  PERFORM tas.write_notes(written, audits, approvals);
  at := clock_timestamp();
END $$;

-- RESTORES

-- What an operator says after a restore, before a service starts. Saying it again with the same time changes nothing: runs
-- that have begun meanwhile are not marked. Rows of a restore before this one are replaced, since its calls are asked about
-- anew. Decisions made before are stored no more: the registry's version moves.
CREATE FUNCTION tas.mark_restored(
  since timestamptz, said_by text, OUT runs bigint, OUT calls bigint, OUT projects bigint, OUT marked_now boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE tas.restore IN EXCLUSIVE MODE;
  SELECT r.runs, r.calls INTO mark_restored.runs, mark_restored.calls FROM tas.restore r WHERE r.lost_since = since;
  marked_now := NOT FOUND;
  IF marked_now THEN
    INSERT INTO tas.restore (lost_since, restored_by, runs, calls) VALUES (since, said_by, 0, 0);
    INSERT INTO tas.restored_run (run_id, project, lost_since)
      SELECT r.run_id, r.project, since FROM runs.run r
      WHERE r.status NOT IN ('completed', 'failed', 'escalated', 'abandoned', 'cancelled', 'timed_out')
      ON CONFLICT (run_id) DO UPDATE SET lost_since = excluded.lost_since;
    SELECT count(*) INTO mark_restored.runs FROM tas.restored_run m WHERE m.lost_since = since;
    SELECT count(*) INTO mark_restored.calls FROM tas.restored_run m
      JOIN tas.tool_call c ON c.run_id = m.run_id
      WHERE m.lost_since = since AND c.effect_class <> 'pure'
        AND c.status IN ('requested', 'awaiting_approval', 'permitted', 'started', 'unknown');
    UPDATE tas.restore r SET runs = mark_restored.runs, calls = mark_restored.calls WHERE r.lost_since = since;
    INSERT INTO tas.project_state (project) SELECT DISTINCT r.project FROM runs.run r ON CONFLICT DO NOTHING;
    UPDATE tas.project_state SET registry_version = registry_version + 1;
    PERFORM tas.write_audit('{}', coalesce((
      SELECT array_agg(ROW(true, p.project, NULL, NULL, 'database.restored', 'marked', '', '', '', '', '', said_by, NULL, 0,
          '', json_build_object('lost_since', since, 'runs',
            (SELECT count(*) FROM tas.restored_run m WHERE m.lost_since = since AND m.project = p.project))::text
        )::tas.audit_new ORDER BY p.project)
      FROM tas.project_state p), '{}'));
  END IF;
  SELECT count(DISTINCT m.project) INTO projects FROM tas.restored_run m WHERE m.lost_since = since;
END $$;

-- RIGHTS

GRANT SELECT, INSERT, UPDATE ON tas.project_state, tas.shadow_policy, tas.tool, tas.tool_call, tas.fence, tas.approval,
  tas.rule_count, tas.rate_count TO towpath_tas;
GRANT SELECT, INSERT ON tas.policy_version, tas.permission_rule, tas.approval_vote TO towpath_tas;
GRANT SELECT, INSERT, DELETE ON tas.switch TO towpath_tas;
GRANT SELECT, INSERT, UPDATE, DELETE ON tas.blob_piece, tas.worker TO towpath_tas;
GRANT SELECT ON tas.network_spec, tas.run_task, tas.restored_run TO towpath_tas;
GRANT SELECT ON tas.approval_vote TO towpath_orchestrator;
-- It tells what is used of a project's quota of calls.
GRANT SELECT ON tas.rate_count TO towpath_orchestrator;
REVOKE EXECUTE ON FUNCTION tas.answers_of_run, tas.project_key, tas.stale_projects, tas.await_decisions, tas.rate_window,
  tas.lock_counts, tas.add_counts, tas.write_approvals, tas.write_notes, tas.open_calls, tas.change_calls,
  tas.mark_restored FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.answers_of_run, tas.project_key, tas.stale_projects, tas.rate_window, tas.lock_counts,
  tas.add_counts, tas.write_approvals, tas.write_notes, tas.open_calls, tas.change_calls TO towpath_tas;

-- migrate:down
DROP FUNCTION tas.mark_restored, tas.open_calls, tas.change_calls, tas.write_notes, tas.write_approvals, tas.add_counts, tas.lock_counts,
  tas.add_quota_places, tas.quota_places, tas.rate_window, tas.stale_projects;
DROP TYPE tas.quota_place, tas.project_seen, tas.count_new, tas.approval_new, tas.call_change, tas.call_new;
DROP VIEW tas.run_task, tas.network_spec;
DROP TABLE tas.worker, tas.blob_piece, tas.rate_count, tas.rule_count, tas.approval_vote, tas.approval, tas.fence, tas.restored_run, tas.restore,
  tas.tool_call,
  tas.switch, tas.tool, tas.shadow_policy, tas.permission_rule, tas.policy_version, tas.project_state;
DROP FUNCTION tas.await_decisions, tas.project_key, tas.answers_of_run;
