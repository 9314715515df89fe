-- name: times
-- Postgres's clock, which version of the limits holds, and how far the log of each run goes. One that was erased has none.
SELECT statement_timestamp() AS now, (SELECT version FROM runs.budget_version) AS budgets, r.run_id, r.seq
FROM (SELECT 1) AS one LEFT JOIN runs.run r ON r.run_id = ANY ($1::uuid[]) AND r.erased_at IS NULL

-- name: commit_batch
-- One statement, one commit: every run whose seq is still the expected one moves on, with its events, facts, gates,
-- children and what it spends. Nothing moves where limits were set since the transitions were made ($23 is the version
-- that they know of): a limit holds from the moment it is set. A part that the batch does not need is an empty array.
--
-- Runs are locked in run_id order, so that two orchestrators can't deadlock; the accounts are locked after them, in key
-- order. A run that does not fit its accounts is left out. Runs of one batch are taken in turn: first those that only
-- give back. What a run gives back that also asks for something is nobody else's before it has moved: where one of its
-- accounts has no room it keeps what it holds in all of them. `alone` says whether the run would not fit by itself
-- either. Where money is limited nothing fits that nobody knows the price of: `unpriced` names such a model.
--
-- Each child is created with its whole record, in the transition that starts it. Returned are the runs that moved, those
-- that did not fit with the reason, and the accounts of which so much is spent that somebody wants to be warned.
WITH wanted AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::timestamptz[],
                       $8::text[], $9::int[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[])
    AS w (run_id, expected, seq, status, reason, fence, wake_at, agent_key, step, started_at, ended_at, outcome, calls)
  WHERE (SELECT version FROM runs.budget_version) = $23
), locked AS (
  SELECT r.run_id FROM runs.run r JOIN wanted w ON w.run_id = r.run_id AND w.expected = r.seq
  ORDER BY r.run_id FOR UPDATE OF r
), charge AS (
  SELECT c.* FROM json_to_recordset($29::json) AS c (run_id uuid, project text, scope text, key text, unpriced text,
    usd_micros_asked bigint, usd_micros_freed bigint, usd_micros_spent bigint, usd_micros_estimated bigint,
    tokens_asked bigint, tokens_freed bigint, tokens_spent bigint, tokens_estimated bigint,
    model_calls_asked bigint, model_calls_freed bigint, model_calls_spent bigint, model_calls_estimated bigint,
    tool_calls_asked bigint, tool_calls_freed bigint, tool_calls_spent bigint, tool_calls_estimated bigint)
  JOIN locked ON locked.run_id = c.run_id
), account AS (
  SELECT b.* FROM runs.budget b
  WHERE (b.project, b.scope, b.key) IN (SELECT c.project, c.scope, c.key FROM charge c)
  ORDER BY b.project, b.scope, b.key FOR UPDATE OF b
), own AS (
  SELECT c.*,
    c.usd_micros_asked - c.usd_micros_freed + c.usd_micros_spent AS usd_micros_own,
    c.tokens_asked - c.tokens_freed + c.tokens_spent AS tokens_own,
    c.model_calls_asked - c.model_calls_freed + c.model_calls_spent AS model_calls_own,
    c.tool_calls_asked - c.tool_calls_freed + c.tool_calls_spent AS tool_calls_own,
    bool_or(a.key IS NULL OR coalesce(c.unpriced, '') <> ''
      OR c.usd_micros_asked + c.tokens_asked + c.model_calls_asked + c.tool_calls_asked > 0) OVER (PARTITION BY c.run_id) AS may_stay
  FROM charge c LEFT JOIN account a ON (a.project, a.scope, a.key) = (c.project, c.scope, c.key)
), line AS (
  SELECT o.*,
    o.usd_micros_own + coalesce(sum(CASE WHEN o.may_stay THEN greatest(o.usd_micros_own, 0) ELSE o.usd_micros_own END) OVER before, 0) AS usd_micros_so_far,
    o.tokens_own + coalesce(sum(CASE WHEN o.may_stay THEN greatest(o.tokens_own, 0) ELSE o.tokens_own END) OVER before, 0) AS tokens_so_far,
    o.model_calls_own + coalesce(sum(CASE WHEN o.may_stay THEN greatest(o.model_calls_own, 0) ELSE o.model_calls_own END) OVER before, 0) AS model_calls_so_far,
    o.tool_calls_own + coalesce(sum(CASE WHEN o.may_stay THEN greatest(o.tool_calls_own, 0) ELSE o.tool_calls_own END) OVER before, 0) AS tool_calls_so_far
  FROM own o
  WINDOW before AS (PARTITION BY o.project, o.scope, o.key ORDER BY o.may_stay, o.run_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), short AS (
  SELECT l.run_id, l.scope, l.key, a.key IS NULL AS missing, u.unit, u.most, u.spent, u.reserved, u.asked,
         u.most < u.spent + u.reserved + u.own OR p.unpriced IS NOT NULL AS alone, p.unpriced
  FROM line l LEFT JOIN account a ON (a.project, a.scope, a.key) = (l.project, l.scope, l.key)
  CROSS JOIN LATERAL (VALUES
    ('usd_micros', a.usd_micros_limit, a.usd_micros_spent, a.usd_micros_reserved, l.usd_micros_asked,
     l.usd_micros_own, l.usd_micros_so_far),
    ('tokens', a.tokens_limit, a.tokens_spent, a.tokens_reserved, l.tokens_asked,
     l.tokens_own, l.tokens_so_far),
    ('model_calls', a.model_calls_limit, a.model_calls_spent, a.model_calls_reserved, l.model_calls_asked,
     l.model_calls_own, l.model_calls_so_far),
    ('tool_calls', a.tool_calls_limit, a.tool_calls_spent, a.tool_calls_reserved, l.tool_calls_asked,
     l.tool_calls_own, l.tool_calls_so_far)
  ) AS u (unit, most, spent, reserved, asked, own, so_far)
  CROSS JOIN LATERAL (SELECT CASE WHEN u.unit = 'usd_micros' AND u.most IS NOT NULL THEN nullif(l.unpriced, '') END AS unpriced) AS p
  WHERE a.key IS NULL OR (u.asked > 0 AND u.most < u.spent + u.reserved + u.so_far) OR p.unpriced IS NOT NULL
), held AS (
  SELECT k.run_id FROM locked k WHERE NOT EXISTS (SELECT FROM short s WHERE s.run_id = k.run_id)
), moved AS (
  UPDATE runs.run r SET
    seq = w.seq, status = w.status, reason = w.reason, fence = w.fence, wake_at = w.wake_at, agent_key = w.agent_key,
    step = w.step, started_at = w.started_at, ended_at = w.ended_at, outcome = w.outcome::json, calls = w.calls::jsonb,
    updated_at = $14
  FROM wanted w JOIN held h ON h.run_id = w.run_id
  WHERE r.run_id = w.run_id AND r.seq = w.expected
  RETURNING r.run_id
), new_events AS (
  INSERT INTO runs.run_event (run_id, seq, at, type, event)
  SELECT e.run_id, e.seq, $14, e.type, e.event::json
  FROM unnest($15::uuid[], $16::bigint[], $17::text[], $18::text[]) AS e (run_id, seq, type, event)
  JOIN moved ON moved.run_id = e.run_id
), new_facts AS (
  INSERT INTO runs.run_fact (run_id, first_seq, at, fact, engine_version)
  SELECT f.run_id, f.first_seq, $14, f.fact::json, $22
  FROM unnest($19::uuid[], $20::bigint[], $21::text[]) AS f (run_id, first_seq, fact)
  JOIN moved ON moved.run_id = f.run_id
), opened AS (
  INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, tool, rule, execution_id,
                         approval_id, opened_at, expires_at)
  SELECT g.gate_id, g.run_id, g.project, g.network, g.gate_type, g.status, g.reason, g.detail::json, g.tool, g.rule,
         g.execution_id, g.approval_id, $14, g.expires_at
  FROM json_to_recordset($24::json) AS g (gate_id uuid, run_id uuid, project text, network text, gate_type text,
    status text, reason text, detail text, tool text, rule text, execution_id uuid, approval_id uuid,
    expires_at timestamptz)
  JOIN moved ON moved.run_id = g.run_id
  ON CONFLICT (gate_id) DO NOTHING
), closed AS (
  UPDATE runs.gate g SET status = c.status, verdict = c.verdict, closed_at = $14, closed_by = c.by, closed_reason = c.reason
  FROM json_to_recordset($25::json) AS c (gate_id uuid, run_id uuid, status text, verdict text, by text, reason text)
  JOIN moved ON moved.run_id = c.run_id
  WHERE g.gate_id = c.gate_id
), voided AS (
  UPDATE runs.gate g SET status = 'void', closed_at = $14, closed_reason = 'the run ended'
  FROM moved JOIN wanted w ON w.run_id = moved.run_id
  WHERE g.run_id = moved.run_id AND w.ended_at IS NOT NULL AND g.status = 'pending'
    AND g.gate_id NOT IN (SELECT c.gate_id FROM json_to_recordset($25::json) AS c (gate_id uuid))
), children AS (
  INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, wake_at, caller, priority,
                        agent_key, step, max_steps, user_message, labels, debug, created_at, started_at, updated_at,
                        parent_run_id, root_run_id, depth, trace_id)
  SELECT c.run_id, c.project, c.kind, c.network, c.version, c.snapshot_digest, c.status, c.seq, c.wake_at, c.caller,
         c.priority, c.agent_key, c.step, c.max_steps, c.user_message, c.labels, c.debug, $14, c.started_at, $14,
         c.parent_run_id, c.root_run_id, c.depth, c.trace_id
  FROM json_to_recordset($26::json) AS c (run_id uuid, project text, kind text, network text, version int,
    snapshot_digest text, status text, seq bigint, wake_at timestamptz, caller text, priority int, agent_key text,
    step int, max_steps int, user_message text, labels jsonb, debug bool, started_at timestamptz, parent_run_id uuid,
    root_run_id uuid, depth int, trace_id uuid)
  JOIN moved ON moved.run_id = c.parent_run_id
  ON CONFLICT (run_id) DO NOTHING
  RETURNING run_id
), child_events AS (
  INSERT INTO runs.run_event (run_id, seq, at, type, event)
  SELECT e.run_id, e.seq, $14, e.type, e.event::json
  FROM json_to_recordset($27::json) AS e (run_id uuid, seq bigint, type text, event text)
  JOIN children ON children.run_id = e.run_id
), child_facts AS (
  INSERT INTO runs.run_fact (run_id, first_seq, at, fact, engine_version)
  SELECT f.run_id, f.first_seq, $14, f.fact::json, $22
  FROM json_to_recordset($28::json) AS f (run_id uuid, first_seq bigint, fact text)
  JOIN children ON children.run_id = f.run_id
), charged AS (
  UPDATE runs.budget b SET
    usd_micros_spent = b.usd_micros_spent + s.usd_micros_spent, usd_micros_reserved = b.usd_micros_reserved + s.usd_micros_reserved,
    usd_micros_estimated = b.usd_micros_estimated + s.usd_micros_estimated,
    tokens_spent = b.tokens_spent + s.tokens_spent, tokens_reserved = b.tokens_reserved + s.tokens_reserved,
    tokens_estimated = b.tokens_estimated + s.tokens_estimated,
    model_calls_spent = b.model_calls_spent + s.model_calls_spent, model_calls_reserved = b.model_calls_reserved + s.model_calls_reserved,
    model_calls_estimated = b.model_calls_estimated + s.model_calls_estimated,
    tool_calls_spent = b.tool_calls_spent + s.tool_calls_spent, tool_calls_reserved = b.tool_calls_reserved + s.tool_calls_reserved,
    tool_calls_estimated = b.tool_calls_estimated + s.tool_calls_estimated
  FROM (
    SELECT c.project, c.scope, c.key,
      sum(c.usd_micros_spent)::bigint AS usd_micros_spent, sum(c.usd_micros_asked - c.usd_micros_freed)::bigint AS usd_micros_reserved,
      sum(c.usd_micros_estimated)::bigint AS usd_micros_estimated,
      sum(c.tokens_spent)::bigint AS tokens_spent, sum(c.tokens_asked - c.tokens_freed)::bigint AS tokens_reserved,
      sum(c.tokens_estimated)::bigint AS tokens_estimated,
      sum(c.model_calls_spent)::bigint AS model_calls_spent, sum(c.model_calls_asked - c.model_calls_freed)::bigint AS model_calls_reserved,
      sum(c.model_calls_estimated)::bigint AS model_calls_estimated,
      sum(c.tool_calls_spent)::bigint AS tool_calls_spent, sum(c.tool_calls_asked - c.tool_calls_freed)::bigint AS tool_calls_reserved,
      sum(c.tool_calls_estimated)::bigint AS tool_calls_estimated
    FROM charge c JOIN moved ON moved.run_id = c.run_id GROUP BY c.project, c.scope, c.key
  ) AS s
  WHERE (b.project, b.scope, b.key) = (s.project, s.scope, s.key)
  RETURNING b.*
)
SELECT 'moved' AS what, m.run_id, NULL AS detail FROM moved m
UNION ALL
SELECT 'short', s.run_id, row_to_json(s)::text FROM short s
UNION ALL
SELECT 'soft', NULL, row_to_json(c)::text FROM charged c
WHERE c.usd_micros_spent > 0 AND c.usd_micros_spent >= c.soft * c.usd_micros_limit OR
  c.tokens_spent > 0 AND c.tokens_spent >= c.soft * c.tokens_limit OR
  c.model_calls_spent > 0 AND c.model_calls_spent >= c.soft * c.model_calls_limit OR
  c.tool_calls_spent > 0 AND c.tool_calls_spent >= c.soft * c.tool_calls_limit

-- name: commit_plain_batch
-- Most batches: no gate is or was open, no child starts, no run spends from an account. It is commit_batch without the
-- parts for these, and takes its first 23 values: leaving them out saves two fifths of the statement's time.
WITH wanted AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::timestamptz[],
                       $8::text[], $9::int[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[])
    AS w (run_id, expected, seq, status, reason, fence, wake_at, agent_key, step, started_at, ended_at, outcome, calls)
  WHERE (SELECT version FROM runs.budget_version) = $23
), held AS (
  SELECT r.run_id FROM runs.run r JOIN wanted w ON w.run_id = r.run_id AND w.expected = r.seq
  ORDER BY r.run_id FOR UPDATE OF r
), moved AS (
  UPDATE runs.run r SET
    seq = w.seq, status = w.status, reason = w.reason, fence = w.fence, wake_at = w.wake_at, agent_key = w.agent_key,
    step = w.step, started_at = w.started_at, ended_at = w.ended_at, outcome = w.outcome::json, calls = w.calls::jsonb,
    updated_at = $14
  FROM wanted w JOIN held h ON h.run_id = w.run_id
  WHERE r.run_id = w.run_id AND r.seq = w.expected
  RETURNING r.run_id
), new_events AS (
  INSERT INTO runs.run_event (run_id, seq, at, type, event)
  SELECT e.run_id, e.seq, $14, e.type, e.event::json
  FROM unnest($15::uuid[], $16::bigint[], $17::text[], $18::text[]) AS e (run_id, seq, type, event)
  JOIN moved ON moved.run_id = e.run_id
), new_facts AS (
  INSERT INTO runs.run_fact (run_id, first_seq, at, fact, engine_version)
  SELECT f.run_id, f.first_seq, $14, f.fact::json, $22
  FROM unnest($19::uuid[], $20::bigint[], $21::text[]) AS f (run_id, first_seq, fact)
  JOIN moved ON moved.run_id = f.run_id
)
SELECT 'moved' AS what, run_id, NULL AS detail FROM moved

-- name: create_runs
-- New runs, each with its idempotency key; a key that is taken creates nothing, and neither does a fork of a run that was
-- erased or is confirmed to be, or one that continues it. Whoever erases that run waits, or is waited for. Nor is a run
-- continued twice: a thread is a line. LIMIT keeps the planner from reading all runs for that, while there are few.
WITH asked AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::bigint[],
                       $8::timestamptz[], $9::text[], $10::int[], $11::text[], $12::int[], $13::int[], $14::text[],
                       $15::text[], $16::bool[], $17::timestamptz[], $18::text[], $19::text[], $29::text[],
                       $31::uuid[], $33::uuid[], $34::uuid[], $35::uuid[])
    AS w (run_id, project, network, version, snapshot_digest, status, seq, wake_at, caller, priority, agent_key, step,
          max_steps, user_message, labels, debug, started_at, idempotency_key, request_digest, kind, forked_from,
          continues, thread_id, trace_id)
), parents AS MATERIALIZED (
  SELECT run_id FROM runs.run WHERE run_id = ANY ($31::uuid[] || $33::uuid[]) AND erased_at IS NULL
    AND NOT runs.is_to_be_erased(project, run_id)
  ORDER BY run_id FOR KEY SHARE
), wanted AS (
  SELECT * FROM asked
  WHERE (forked_from IS NULL OR forked_from IN (SELECT run_id FROM parents))
    AND (continues IS NULL OR continues IN (SELECT run_id FROM parents) AND (
      SELECT later.run_id FROM runs.run later WHERE later.continues = asked.continues AND later.erased_at IS NULL LIMIT 1) IS NULL)
), keyed AS (
  INSERT INTO runs.idempotency (project, caller, key, request_digest, run_id, created_at)
  SELECT project, caller, idempotency_key, request_digest, run_id, $20 FROM wanted WHERE idempotency_key IS NOT NULL
  ON CONFLICT DO NOTHING
  RETURNING run_id
), made AS (
  INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, wake_at, caller, priority,
                        agent_key, step, max_steps, user_message, labels, debug, created_at, started_at, updated_at,
                        continues, thread_id, trace_id, queue_at)
  SELECT run_id, project, kind, network, version, snapshot_digest, status, seq, wake_at, caller, priority, agent_key,
         step, max_steps, user_message, labels::jsonb, debug, $20, started_at, $20, continues, thread_id, trace_id,
         $20::timestamptz - make_interval(secs => priority * $30::float8)
  FROM wanted WHERE idempotency_key IS NULL OR run_id IN (SELECT run_id FROM keyed)
  ON CONFLICT (continues) WHERE continues IS NOT NULL AND erased_at IS NULL DO NOTHING
  RETURNING run_id
), new_events AS (
  INSERT INTO runs.run_event (run_id, seq, at, type, event)
  SELECT e.run_id, e.seq, $20, e.type, e.event::json
  FROM unnest($21::uuid[], $22::bigint[], $23::text[], $24::text[]) AS e (run_id, seq, type, event)
  JOIN made ON made.run_id = e.run_id
), new_facts AS (
  INSERT INTO runs.run_fact (run_id, first_seq, at, fact, engine_version)
  SELECT f.run_id, f.first_seq, $20, f.fact::json, $28
  FROM unnest($25::uuid[], $26::bigint[], $27::text[]) AS f (run_id, first_seq, fact)
  JOIN made ON made.run_id = f.run_id
), opened AS (
  INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, tool, rule, opened_at,
                         expires_at)
  SELECT g.gate_id, g.run_id, g.project, g.network, g.gate_type, g.status, g.reason, g.detail::json, g.tool, g.rule, $20,
         g.expires_at
  FROM json_to_recordset($32::json) AS g (gate_id uuid, run_id uuid, project text, network text, gate_type text,
    status text, reason text, detail text, tool text, rule text, expires_at timestamptz)
  JOIN made ON made.run_id = g.run_id
)
SELECT run_id FROM made

-- name: now
SELECT statement_timestamp()

-- name: now_and_budgets
SELECT statement_timestamp() AS now, version AS budgets, quotas FROM runs.budget_version

-- name: idempotent_run
SELECT i.run_id, i.request_digest, r.trace_id, r.project, r.network, r.version, r.status, r.created_at,
       (SELECT (e.event ->> 'timeout_ms')::bigint FROM runs.run_event e WHERE e.run_id = r.run_id AND e.seq = 1) AS timeout_ms
FROM runs.idempotency i JOIN runs.run r USING (run_id)
WHERE i.project = $1 AND i.caller = $2 AND i.key = $3

-- name: forget_key
-- Where two replies to a run meet, the key of the one that comes too late is stored and its run is not.
DELETE FROM runs.idempotency WHERE project = $1 AND caller = $2 AND key = $3 AND run_id = $4

-- name: forget_old_keys
DELETE FROM runs.idempotency WHERE created_at < now() - interval '24 hours'

-- name: load_run
-- The first event, the newest snapshot and what came after it.
SELECT r.snapshot_digest, s.seq AS snapshot_seq, s.state,
       (SELECT event FROM runs.run_event e WHERE e.run_id = r.run_id AND e.seq = 1) AS task
FROM runs.run r LEFT JOIN runs.run_snapshot s ON s.run_id = r.run_id AND s.engine_version = $2
WHERE r.run_id = $1

-- name: load_tails
-- What came after the states of many runs. The ORDER BY inside makes Postgres look each run up in the index of events,
-- however many runs or events it expects.
SELECT e.run_id, e.seq, e.at, e.event FROM unnest($1::uuid[], $2::bigint[]) AS w (run_id, seq)
CROSS JOIN LATERAL (
  SELECT t.run_id, t.seq, t.at, t.event FROM runs.run_event t WHERE t.run_id = w.run_id AND t.seq > w.seq ORDER BY t.seq
) AS e
ORDER BY e.run_id, e.seq

-- name: save_snapshot
INSERT INTO runs.run_snapshot (run_id, seq, engine_version, state)
SELECT $1::uuid, $2::bigint, $3::text, $4::json
WHERE NOT EXISTS (SELECT FROM runs.run r WHERE r.run_id = $1 AND r.erased_at IS NOT NULL)
ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, engine_version = excluded.engine_version, state = excluded.state
WHERE runs.run_snapshot.seq < excluded.seq OR runs.run_snapshot.engine_version <> excluded.engine_version

-- name: park
-- A log that can't be folded, or in which not even a quarantine can be stored: the row says so, and nothing wakes the run.
UPDATE runs.run SET status = 'quarantined', reason = $2, wake_at = NULL, updated_at = now()
WHERE run_id = $1 AND ended_at IS NULL

-- name: move_wake
-- Rows are locked in run_id order, as commit_batch does it: two replicas must not wait for each other.
WITH wanted AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) AS w (run_id, seq, wake_at)
), held AS (
  SELECT r.run_id FROM runs.run r JOIN wanted w ON w.run_id = r.run_id AND w.seq = r.seq
  ORDER BY r.run_id FOR UPDATE OF r
)
UPDATE runs.run r SET wake_at = w.wake_at
FROM wanted w JOIN held h ON h.run_id = w.run_id
WHERE r.run_id = w.run_id AND r.seq = w.seq

-- name: claim_overdue
-- Active runs are looked through: their times are in no index, so that a transition writes none.
WITH active AS (
  SELECT run_id, wake_at FROM runs.run WHERE status IN ('running', 'cancelling') AND wake_at <= now()
  ORDER BY wake_at LIMIT $1 FOR UPDATE SKIP LOCKED
), inactive AS (
  SELECT run_id, wake_at FROM runs.run WHERE inactive_wake_at <= now()
  ORDER BY inactive_wake_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE runs.run SET wake_at = now() + interval '5 seconds'
WHERE run_id IN (
  SELECT run_id FROM (SELECT * FROM active UNION ALL SELECT * FROM inactive) AS due ORDER BY wake_at LIMIT $1)
RETURNING run_id

-- name: moved_lately
-- Whose effects a process that died may have left unsent. Runs that wait for people are asked about soon enough.
SELECT run_id FROM runs.run WHERE status IN ('running', 'cancelling') AND updated_at > now() - make_interval(secs => $1)
ORDER BY updated_at DESC LIMIT $2

-- name: load_counts
-- Who holds how much of the room, and how many wait for it. A run that waits for a person, or for its project's quota of
-- tool calls, holds none, nor does one that waits for a child: what lives below it counts instead. `budgets` tells whether anybody has changed a limit; `queues`
-- how many of a caller's runs wait, and `project_queues` of a project's, of those that have a hundredth of $2 or more: at
-- most a hundred. No more than $1 of the queue are counted. `project_waiting` has the projects of which $3 or more wait
-- so; of each no more are counted as `waiting`, so that none makes others wait.
WITH queued AS MATERIALIZED (
  SELECT w.caller, coalesce(p.project, '') AS project, w.waits
  FROM (SELECT q.caller, count(*) AS waits
        FROM (SELECT caller FROM runs.run WHERE status = 'queued' LIMIT $1) AS q GROUP BY q.caller) AS w
  LEFT JOIN gateway.principal p ON p.caller = w.caller
), waiting AS MATERIALIZED (
  SELECT project, count(*) AS waits FROM runs.run WHERE status = 'waiting' GROUP BY project
)
SELECT q.queued, q.queues, o.project_queues, p.waiting, p.project_waiting, a.project, a.caller, a.network, a.active,
  (SELECT version FROM runs.budget_version) AS budgets
FROM (SELECT coalesce(sum(c.waits), 0)::bigint AS queued,
        coalesce(json_object_agg(c.caller, c.waits) FILTER (WHERE c.waits * 100 >= $2), '{}')::text AS queues
      FROM queued AS c) AS q
CROSS JOIN (SELECT coalesce(json_object_agg(c.project, c.waits) FILTER (WHERE c.waits * 100 >= $2), '{}')::text AS project_queues
            FROM (SELECT project, sum(waits)::bigint AS waits FROM queued GROUP BY project) AS c) AS o
CROSS JOIN (SELECT coalesce(sum(least(w.waits, $3)), 0)::bigint AS waiting,
              coalesce(json_object_agg(w.project, w.waits) FILTER (WHERE w.waits >= $3), '{}')::text AS project_waiting
            FROM waiting AS w) AS p
LEFT JOIN (SELECT r.project, r.caller, r.network, count(*) AS active FROM runs.run r
           WHERE r.status IN ('running', 'cancelling') AND NOT EXISTS (
             SELECT 1 FROM runs.run c WHERE c.parent_run_id = r.run_id
               AND c.status IN ('queued', 'running', 'waiting', 'cancelling'))
           GROUP BY r.project, r.caller, r.network) AS a ON true

-- name: next_queued
-- The project that holds least comes next, however many callers it has: each one's first, then each one's second. Of one
-- project, and of projects that hold the same, it is the caller that holds least; of callers that hold
-- the same, whoever is not among $3, or was served longest ago, which is first in it. Nobody's runs of one network get
-- more than $2, so that a slow one leaves room for the others, and no project's more than $6, so that it leaves room for
-- other projects. Each queue is read from its front, and no further than it
-- could be let in: a long one hides nobody and costs nothing. Children have no queue_at and stand in front of what is
-- not begun; the others stand where priority and waiting put them, once and for all: both grow by the same clock.
-- Where $4 is set only children come in, and of the projects in $7. No more than $5 hold room afterwards: counted here,
-- where nothing comes between. What a project has beyond $6, because people let it go on, is not counted.
WITH RECURSIVE active AS (
  SELECT r.project, r.caller, r.network, count(*) AS held FROM runs.run r
  WHERE r.status IN ('running', 'cancelling') AND NOT EXISTS (
    SELECT 1 FROM runs.run c WHERE c.parent_run_id = r.run_id
      AND c.status IN ('queued', 'running', 'waiting', 'cancelling'))
  GROUP BY r.project, r.caller, r.network
), projects AS (
  SELECT project, sum(held)::bigint AS held FROM active GROUP BY project
), queue AS (
  (SELECT caller, network, project FROM runs.run WHERE status = 'queued' ORDER BY caller, network LIMIT 1)
  UNION ALL
  SELECT n.caller, n.network, n.project FROM queue q CROSS JOIN LATERAL (
    SELECT r.caller, r.network, r.project FROM runs.run r
    WHERE r.status = 'queued' AND (r.caller, r.network) > (q.caller, q.network)
    ORDER BY r.caller, r.network LIMIT 1) AS n
), front AS (
  SELECT w.run_id, w.queue_at, q.project, q.caller, q.network
  FROM queue q LEFT JOIN active a ON a.caller = q.caller AND a.network = q.network
  LEFT JOIN projects o ON o.project = q.project
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.queue_at FROM runs.run r
    WHERE r.status = 'queued' AND r.caller = q.caller AND r.network = q.network
      AND (NOT ($4::boolean OR q.project = ANY ($7::text[])) OR r.queue_at IS NULL)
    ORDER BY r.queue_at NULLS FIRST, r.run_id
    LIMIT greatest(0, least($1, $2 - coalesce(a.held, 0), $6 - coalesce(o.held, 0)))) AS w
), placed AS (
  SELECT f.run_id, f.project, f.caller, f.network, coalesce(c.held, 0)
           + row_number() OVER (PARTITION BY f.caller ORDER BY f.queue_at NULLS FIRST, f.run_id) AS turn
  FROM front f
  LEFT JOIN (SELECT caller, sum(held)::bigint AS held FROM active GROUP BY caller) AS c ON c.caller = f.caller
), counted AS (
  SELECT p.*, s.place, row_number() OVER (PARTITION BY p.project ORDER BY p.turn, s.place NULLS FIRST, p.run_id) AS nth
  FROM placed p LEFT JOIN unnest($3::text[]) WITH ORDINALITY AS s (caller, place) ON s.caller = p.caller
)
SELECT n.run_id, n.project, n.caller, n.network FROM counted n
WHERE n.nth <= $6 - coalesce((SELECT o.held FROM projects o WHERE o.project = n.project), 0)
ORDER BY coalesce((SELECT o.held FROM projects o WHERE o.project = n.project), 0) + n.nth, n.turn, n.place NULLS FIRST, n.run_id
LIMIT greatest(0, least($1, $5::bigint - (SELECT coalesce(sum(least(held, $6)), 0)::bigint FROM projects)))

-- name: project_of_caller
SELECT project FROM gateway.principal WHERE caller = $1

-- name: add_blob
INSERT INTO runs.blob (project, digest, data, size) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, digest) DO UPDATE SET used_at = now()

-- name: texts
-- What one fact may load is bounded, whatever a worker has stored.
SELECT digest, data
FROM (
  SELECT digest, data, sum(size) OVER (ORDER BY size, digest) AS total
  FROM runs.blob WHERE project = $1 AND digest = ANY ($2::text[])
) AS found
WHERE total <= $3

-- name: text_sizes
SELECT digest, size FROM runs.blob WHERE project = $1 AND digest = ANY ($2::text[])

-- name: output_event
-- What a call has returned, or an agent that was asked: the event whose text begins in one of these ways. One writer
-- writes events, with type and id first; what a tool returned stands behind them and can't pass for another event.
SELECT event::text AS event FROM runs.run_event
WHERE run_id = $1 AND type IN ('tool_call_finished', 'tool_call_denied', 'child_ended')
  AND EXISTS (SELECT FROM unnest($2::text[]) AS k (beginning) WHERE starts_with(event::text, k.beginning)) LIMIT 1

-- name: get_blob
-- The piece of $4 bytes behind the first $3, and the length of all. Whoever asks names the run that names the blob; a run
-- reaches its own project's blobs only.
SELECT octet_length(b.data) AS bytes, substring(b.data FROM $3::int + 1 FOR $4::int) AS piece
FROM runs.blob b JOIN runs.run r ON r.project = b.project
WHERE b.digest = $1 AND r.run_id = $2 AND r.erased_at IS NULL

-- name: network_version
SELECT project, name, version, digest, published_at, published_by FROM runs.network_version
WHERE project = $1 AND name = $2 AND ($3::int IS NULL OR version = $3) ORDER BY version DESC LIMIT 1

-- name: network_spec
SELECT spec FROM runs.network_version WHERE project = $1 AND name = $2 AND version = $3

-- name: current_networks
SELECT DISTINCT ON (name) project, name, version, digest, published_at, published_by FROM runs.network_version
WHERE project = $1 ORDER BY name, version DESC LIMIT $2

-- name: network_versions
SELECT project, name, version, digest, published_at, published_by FROM runs.network_version
WHERE project = $1 AND name = $2 AND ($3::int IS NULL OR version < $3) ORDER BY version DESC LIMIT $4

-- name: snapshot
SELECT snapshot FROM runs.snapshot WHERE digest = $1

-- name: add_snapshot
INSERT INTO runs.snapshot (digest, snapshot) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: add_version
INSERT INTO runs.network_version (project, name, version, digest, spec, published_at, published_by)
VALUES ($1, $2, $3, $4, $5, now(), $6) RETURNING published_at

-- name: lock_name
SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))

-- name: runs_of_project
-- Which runs a page has, newest first. Each way in is a statement of its own, so that it has its index: one plan is made
-- for all values. What is asked for may be rare, so $9 is the last run that is looked at. The order is written as the index
-- run_project has it: by run_id alone the planner would look through the runs of all projects, which are stored in that order.
SELECT run_id FROM runs.run WHERE project = $1 AND $2::text IS NULL
  AND ($3::text IS NULL OR network = $3) AND ($4::jsonb IS NULL OR labels @> $4::jsonb)
  AND ($7::int IS NULL OR depth = $7) AND ($8::text IS NULL OR kind = $8)
  AND uuid_send(run_id) < uuid_send(coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  AND uuid_send(run_id) >= uuid_send(coalesce($9::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY uuid_send(run_id) DESC LIMIT $6

-- name: runs_of_status
-- The order is written as the index run_status has it: by run_id alone the planner would read all runs in their order.
SELECT run_id FROM runs.run WHERE project = $1 AND status = $2
  AND ($3::text IS NULL OR network = $3) AND ($4::jsonb IS NULL OR labels @> $4::jsonb)
  AND ($7::int IS NULL OR depth = $7) AND ($8::text IS NULL OR kind = $8)
  AND uuid_send(run_id) < uuid_send(coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  AND uuid_send(run_id) >= uuid_send(coalesce($9::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY uuid_send(run_id) DESC LIMIT $6

-- name: runs_of_family
-- Children of a run, the runs of a tree or of a thread.
SELECT run_id FROM (
  SELECT c.* FROM runs.run c WHERE $10::uuid IS NOT NULL AND c.parent_run_id = $10
  UNION ALL
  SELECT c.* FROM runs.run c WHERE $10::uuid IS NULL AND $11::uuid IS NOT NULL AND c.root_run_id = $11
  UNION ALL
  SELECT c.* FROM runs.run c WHERE $10::uuid IS NULL AND $11::uuid IS NULL AND c.thread_id = $12
  UNION ALL
  SELECT c.* FROM runs.run c WHERE $10::uuid IS NULL AND $11::uuid IS NULL AND c.run_id = $12
) AS member
WHERE project = $1 AND ($2::text IS NULL OR status = $2)
  AND ($3::text IS NULL OR network = $3) AND ($4::jsonb IS NULL OR labels @> $4::jsonb)
  AND ($7::int IS NULL OR depth = $7) AND ($8::text IS NULL OR kind = $8)
  AND run_id < coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AND run_id >= coalesce($9::uuid, '00000000-0000-0000-0000-000000000000')
  AND ($11::uuid IS NULL OR root_run_id = $11) AND ($12::uuid IS NULL OR thread_id = $12 OR run_id = $12)
ORDER BY run_id DESC LIMIT $6

-- name: list_runs
-- Of these runs the first whose tasks have at most $3 bytes together, but at least one; `found` counts the others too. The
-- length of a text is known without reading it. Outcomes are read apart, a few at a time.
SELECT run_id, project, kind, network, version, snapshot_digest, status, reason, caller, agent_key, user_message, step, max_steps,
  seq, labels, created_at, started_at, ended_at, trace_id, debug, parent_run_id, root_run_id, depth, thread_id, continues,
  calls, erased_at, octet_length(outcome::text) AS outcome_bytes, found FROM (
SELECT r.*, count(*) OVER () AS found, sum(coalesce(octet_length(user_message), 0)) OVER (ORDER BY run_id DESC) AS bytes
FROM runs.run r WHERE project = $1 AND run_id = ANY ($2::uuid[])) AS page
WHERE bytes <= $3 OR bytes = octet_length(user_message) ORDER BY run_id DESC

-- name: runs_looked_at
-- How far $4 runs of a project go behind $3.
SELECT run_id FROM runs.run
WHERE project = $1 AND $2::text IS NULL
  AND uuid_send(run_id) < uuid_send(coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY uuid_send(run_id) DESC OFFSET $4 - 1 LIMIT 1

-- name: runs_of_status_looked_at
-- How far $4 runs with a status go behind $3.
SELECT run_id FROM runs.run
WHERE project = $1 AND status = $2 AND uuid_send(run_id) < uuid_send(coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY uuid_send(run_id) DESC OFFSET $4 - 1 LIMIT 1

-- name: label_run
-- In no index and in no transition: only lists look at labels.
UPDATE runs.run SET labels = (labels - $4::text[]) || $3::jsonb WHERE project = $1 AND run_id = $2 AND erased_at IS NULL

-- name: tree
-- A run and everything below it, parents before children; roots of trees are found by index. `depth` doesn't order them:
-- the agents of a plan that an agent asked for stand as deep as the plan, and may be born in the same millisecond.
WITH RECURSIVE tree AS (
  SELECT r.*, 0 AS below FROM runs.run r WHERE r.run_id = $1 AND r.project = $2
  UNION ALL
  SELECT c.*, t.below + 1 FROM runs.run c JOIN tree t ON c.parent_run_id = t.run_id
)
SELECT run_id, project, kind, network, version, snapshot_digest, status, reason, caller, agent_key, user_message, step, max_steps,
  seq, labels, created_at, started_at, ended_at, trace_id, debug, parent_run_id, root_run_id, depth, thread_id, continues,
  calls, erased_at, pruned, octet_length(outcome::text) AS outcome_bytes
FROM tree ORDER BY below, run_id LIMIT $3

-- name: outcomes
-- How some runs ended, as it is stored.
SELECT run_id, outcome FROM runs.run WHERE run_id = ANY ($1::uuid[]) AND outcome IS NOT NULL

-- name: tree_steps
-- What the children of some runs are for. `->` gives JSON as it is written: `->>` fails on a text that holds NUL.
SELECT event->'child_id' AS child_id, event->'task'->'purpose' AS purpose, event->'task'->'subject' AS subject
FROM runs.run_event WHERE run_id = ANY ($1::uuid[]) AND type = 'child_started'

-- name: child_report
-- What a parent must know of its child; the outcome is written with the final status.
SELECT r.seq, r.status, r.reason, r.outcome, r.ended_at IS NOT NULL AS ended FROM runs.run r
WHERE r.run_id = $1 AND r.parent_run_id = $2

-- name: run_seq
SELECT seq, status, erased_at, pruned FROM runs.run WHERE run_id = $1 AND ($2::text IS NULL OR project = $2)

-- name: run_statuses
SELECT run_id, project, status, seq FROM runs.run WHERE run_id = ANY ($1::uuid[])

-- name: events_page
-- At most $3 events of at most $4 bytes together, but at least one. The rows are read one after the other, so that none
-- behind the end of the page is: its text may have megabytes, and the length of JSON is known by reading it alone.
WITH RECURSIVE page AS (
  (SELECT seq, octet_length(event::text)::bigint AS bytes, 1 AS rows FROM runs.run_event
   WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT 1)
  UNION ALL
  SELECT following.seq, page.bytes + following.bytes, page.rows + 1
  FROM page CROSS JOIN LATERAL (
    SELECT seq, octet_length(event::text) AS bytes FROM runs.run_event
    WHERE run_id = $1 AND seq > page.seq ORDER BY seq LIMIT 1
  ) AS following
  WHERE page.rows < $3 AND page.bytes + following.bytes <= $4
)
SELECT seq, at, event FROM runs.run_event
WHERE run_id = $1 AND seq > $2 AND seq <= (SELECT max(page.seq) FROM page) ORDER BY seq

-- name: facts_of
SELECT first_seq, at, fact, engine_version FROM runs.run_fact WHERE run_id = $1 ORDER BY first_seq

-- name: sweep_runs
SELECT run_id, project, seq, updated_at FROM (
  (SELECT run_id, project, seq, updated_at FROM runs.run
   WHERE status IN ('running', 'cancelling') AND updated_at >= $1 ORDER BY updated_at LIMIT $2)
  UNION ALL
  (SELECT run_id, project, seq, updated_at FROM runs.run
   WHERE inactive_updated_at >= $1 ORDER BY inactive_updated_at LIMIT $2)
) AS moved
ORDER BY updated_at LIMIT $2

-- Runs that nobody advances, for the watchdog: those longest idle first, at most $4 of each sort. A run that waits for
-- people has its time of waking too, so it is overdue like any other; quiet is one that runs while nothing happens.
-- name: idle_runs
(SELECT run_id, project, seq, status, 'overdue' AS idle, wake_at AS since,
   extract(epoch FROM now() - wake_at)::float8 AS for_s
 FROM (
   (SELECT run_id, project, seq, status, wake_at FROM runs.run
    WHERE status IN ('running', 'cancelling') AND wake_at < now() - make_interval(secs => $1)
    ORDER BY wake_at LIMIT $4)
   UNION ALL
   (SELECT run_id, project, seq, status, wake_at FROM runs.run
    WHERE status = 'waiting' AND inactive_wake_at < now() - make_interval(secs => $1)
    ORDER BY inactive_wake_at LIMIT $4)) AS late
 ORDER BY wake_at LIMIT $4)
UNION ALL
(SELECT run_id, project, seq, status, 'quiet', updated_at, extract(epoch FROM now() - updated_at)::float8
 FROM runs.run WHERE status = 'running' AND updated_at < now() - make_interval(secs => $2)
   AND (wake_at IS NULL OR wake_at >= now())
 ORDER BY updated_at LIMIT $4)
UNION ALL
(SELECT run_id, project, seq, status, 'queued', created_at, extract(epoch FROM now() - created_at)::float8
 FROM runs.run WHERE status = 'queued' AND created_at < now() - make_interval(secs => $3)
 ORDER BY created_at LIMIT $4)

-- name: list_gates
-- Of one status, in the order in which they were opened: of the next $13 those that pass the other filters, which may be
-- hardly any. The votes of people are the tool-access service's; they are read from its table. Each way in is a statement of
-- its own with the same values, so that it has its index: one plan is made for all values.
WITH found AS MATERIALIZED (
  SELECT l.gate_id, l.opened_at FROM (
    SELECT g.gate_id, g.opened_at, g.gate_type, g.tool, g.rule, g.network, g.assigned_to FROM runs.gate g
    WHERE g.project = $1 AND g.status = $2 AND $3::uuid IS NULL AND $4::uuid IS NULL AND $8::uuid IS NULL
      AND (g.opened_at, g.gate_id) > (
        CASE WHEN $6::uuid IS NULL THEN '-infinity' ELSE (SELECT a.opened_at FROM runs.gate a WHERE a.gate_id = $6) END,
        coalesce($6, '00000000-0000-0000-0000-000000000000'))
    ORDER BY g.opened_at, g.gate_id LIMIT $13) l
  WHERE ($5::boolean OR l.gate_type NOT IN ('paused', 'run_paused'))
    AND ($9::text IS NULL OR l.tool = $9) AND ($10::text IS NULL OR l.rule = $10)
    AND ($11::text IS NULL OR l.network = $11) AND ($12::text[] IS NULL OR l.assigned_to = ANY ($12))
  ORDER BY l.opened_at, l.gate_id LIMIT $7
)
SELECT g.*, (SELECT json_agg(json_build_object('actor', v.actor, 'verdict', v.verdict, 'reason', v.reason, 'at', v.at,
                                               'key_prefix', v.key_prefix)
                             ORDER BY v.at, v.actor)
             FROM tas.approval_vote v WHERE v.approval_id = g.approval_id) AS votes
FROM found f JOIN runs.gate g ON g.gate_id = f.gate_id
ORDER BY f.opened_at, f.gate_id

-- name: gates_of_any_status
WITH found AS MATERIALIZED (
  SELECT l.gate_id, l.opened_at FROM (
    SELECT g.gate_id, g.opened_at, g.gate_type, g.tool, g.rule, g.network, g.assigned_to FROM runs.gate g
    WHERE g.project = $1 AND $2::text IS NULL AND $3::uuid IS NULL AND $4::uuid IS NULL AND $8::uuid IS NULL
      AND (g.opened_at, g.gate_id) > (
        CASE WHEN $6::uuid IS NULL THEN '-infinity' ELSE (SELECT a.opened_at FROM runs.gate a WHERE a.gate_id = $6) END,
        coalesce($6, '00000000-0000-0000-0000-000000000000'))
    ORDER BY g.opened_at, g.gate_id LIMIT $13) l
  WHERE ($5::boolean OR l.gate_type NOT IN ('paused', 'run_paused'))
    AND ($9::text IS NULL OR l.tool = $9) AND ($10::text IS NULL OR l.rule = $10)
    AND ($11::text IS NULL OR l.network = $11) AND ($12::text[] IS NULL OR l.assigned_to = ANY ($12))
  ORDER BY l.opened_at, l.gate_id LIMIT $7
)
SELECT g.*, (SELECT json_agg(json_build_object('actor', v.actor, 'verdict', v.verdict, 'reason', v.reason, 'at', v.at,
                                               'key_prefix', v.key_prefix)
                             ORDER BY v.at, v.actor)
             FROM tas.approval_vote v WHERE v.approval_id = g.approval_id) AS votes
FROM found f JOIN runs.gate g ON g.gate_id = f.gate_id
ORDER BY f.opened_at, f.gate_id

-- name: gates_of_status_looked_at
-- How far $4 gates of a status go behind $3.
SELECT g.gate_id FROM runs.gate g
WHERE g.project = $1 AND g.status = $2 AND (g.opened_at, g.gate_id) > (
    CASE WHEN $3::uuid IS NULL THEN '-infinity' ELSE (SELECT a.opened_at FROM runs.gate a WHERE a.gate_id = $3) END,
    coalesce($3, '00000000-0000-0000-0000-000000000000'))
ORDER BY g.opened_at, g.gate_id OFFSET $4 - 1 LIMIT 1

-- name: gates_looked_at
SELECT g.gate_id FROM runs.gate g
WHERE g.project = $1 AND $2::text IS NULL AND (g.opened_at, g.gate_id) > (
    CASE WHEN $3::uuid IS NULL THEN '-infinity' ELSE (SELECT a.opened_at FROM runs.gate a WHERE a.gate_id = $3) END,
    coalesce($3, '00000000-0000-0000-0000-000000000000'))
ORDER BY g.opened_at, g.gate_id OFFSET $4 - 1 LIMIT 1

-- name: gates_of_runs
-- One gate, those of a run, or those of all runs of a tree.
SELECT g.*, (SELECT json_agg(json_build_object('actor', v.actor, 'verdict', v.verdict, 'reason', v.reason, 'at', v.at,
                                               'key_prefix', v.key_prefix)
                             ORDER BY v.at, v.actor)
             FROM tas.approval_vote v WHERE v.approval_id = g.approval_id) AS votes
FROM (
  SELECT c.* FROM runs.gate c WHERE $4::uuid IS NOT NULL AND c.gate_id = $4
  UNION ALL
  SELECT c.* FROM runs.gate c WHERE $4::uuid IS NULL AND $3::uuid IS NOT NULL AND c.run_id = $3
  UNION ALL
  SELECT c.* FROM runs.gate c WHERE $4::uuid IS NULL AND $3::uuid IS NULL AND c.run_id = $8
  UNION ALL
  SELECT c.* FROM runs.run r JOIN runs.gate c ON c.run_id = r.run_id
  WHERE $4::uuid IS NULL AND $3::uuid IS NULL AND r.root_run_id = $8
) AS g
WHERE g.project = $1 AND ($2::text IS NULL OR g.status = $2) AND ($3::uuid IS NULL OR g.run_id = $3)
  AND ($8::uuid IS NULL OR g.run_id = $8 OR g.run_id IN (SELECT r.run_id FROM runs.run r WHERE r.root_run_id = $8))
  AND ($5::boolean OR g.gate_type NOT IN ('paused', 'run_paused'))
  AND (g.opened_at, g.gate_id) > (
    CASE WHEN $6::uuid IS NULL THEN '-infinity' ELSE (SELECT a.opened_at FROM runs.gate a WHERE a.gate_id = $6) END,
    coalesce($6, '00000000-0000-0000-0000-000000000000'))
  AND ($9::text IS NULL OR g.tool = $9) AND ($10::text IS NULL OR g.rule = $10)
  AND ($11::text IS NULL OR g.network = $11) AND ($12::text[] IS NULL OR g.assigned_to = ANY ($12))
ORDER BY g.opened_at, g.gate_id LIMIT $7

-- name: delegate_gate
UPDATE runs.gate SET assigned_to = $3, assigned_by = $4, assigned_reason = $5, assigned_at = clock_timestamp()
WHERE gate_id = $1 AND project = $2 AND status = 'pending' RETURNING gate_id

-- name: closed_gates
-- Those closed last, of as many as $9 says: a filter that hardly anything matches reads no whole table.
WITH looked_at AS MATERIALIZED (
  SELECT g.gate_id, g.closed_at, g.status, g.run_id, g.tool, g.rule, g.network
  FROM runs.gate g
  WHERE g.project = $1 AND g.status <> 'pending'
    AND (g.closed_at, g.gate_id) < (
      CASE WHEN $2::uuid IS NULL THEN 'infinity' ELSE (SELECT a.closed_at FROM runs.gate a WHERE a.gate_id = $2) END,
      coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  ORDER BY g.closed_at DESC, g.gate_id DESC LIMIT $9
), found AS (
  SELECT l.gate_id, l.closed_at FROM looked_at l
  WHERE ($3::text IS NULL OR l.status = $3) AND ($4::uuid IS NULL OR l.run_id = $4)
    AND ($5::text IS NULL OR l.tool = $5) AND ($6::text IS NULL OR l.rule = $6)
    AND ($7::text IS NULL OR l.network = $7)
  ORDER BY l.closed_at DESC, l.gate_id DESC LIMIT $8
)
SELECT g.*, (SELECT json_agg(json_build_object('actor', v.actor, 'verdict', v.verdict, 'reason', v.reason, 'at', v.at,
                                               'key_prefix', v.key_prefix)
                             ORDER BY v.at, v.actor)
             FROM tas.approval_vote v WHERE v.approval_id = g.approval_id) AS votes
FROM found f JOIN runs.gate g ON g.gate_id = f.gate_id
ORDER BY f.closed_at DESC, f.gate_id DESC

-- name: gates_alike
-- What became of calls of this tool that this rule held, the last first.
SELECT g.*, (SELECT json_agg(json_build_object('actor', v.actor, 'verdict', v.verdict, 'reason', v.reason, 'at', v.at,
                                               'key_prefix', v.key_prefix)
                             ORDER BY v.at, v.actor)
             FROM tas.approval_vote v WHERE v.approval_id = g.approval_id) AS votes
FROM runs.gate g
WHERE g.project = $1 AND g.tool = $2 AND g.rule = $3 AND g.status <> 'pending'
  AND (g.closed_at, g.gate_id) < (
    CASE WHEN $4::uuid IS NULL THEN 'infinity' ELSE (SELECT a.closed_at FROM runs.gate a WHERE a.gate_id = $4) END,
    coalesce($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY g.closed_at DESC, g.gate_id DESC LIMIT $5

-- name: refused_act
-- Why what a person did to a run became a dead letter: the message names the act.
SELECT reason FROM runs.dead_letter
WHERE run_id = $1 AND status = 'dead' AND position(convert_to($2::text, 'UTF8') IN body) > 0
ORDER BY dead_letter_id DESC LIMIT 1

-- name: forget_failures
DELETE FROM runs.handling_failure WHERE last < now() - interval '1 day'

-- name: ensure_partitions
SELECT runs.ensure_partitions('runs.run_event', 3), runs.ensure_partitions('runs.run_fact', 3)

-- name: drop_empty_partitions
SELECT runs.drop_empty_partitions('runs.run_event'), runs.drop_empty_partitions('runs.run_fact')
