-- name: held
SELECT run_id, seq FROM history.run_cursor WHERE run_id = ANY($1::uuid[])

-- Moves cursors only where they stand where the writer believed; rows in one order, so that two writers can't block each
-- other. A row that is not returned belongs to another writer's newer state, or is gone with the last commits before a
-- crash of Postgres, which were not waited for: then the run begins anew, and never in its middle.
-- name: move_cursors
INSERT INTO history.run_cursor AS c (run_id, project, seq, prior_seq)
SELECT n.* FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[]) AS n (run_id, project, seq, prior_seq)
WHERE n.prior_seq = 0 OR EXISTS (SELECT FROM history.run_cursor known WHERE known.run_id = n.run_id)
ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, prior_seq = excluded.prior_seq
WHERE c.seq = excluded.prior_seq
RETURNING run_id

-- name: add_runs
INSERT INTO history.agent_execution_history (
  id, agent_id, task_id, project_id, kind, network, version, caller, created_at, started_at, status, state_snapshot,
  parent_id)
SELECT r.id, r.agent_id, r.id::text, r.project_id, r.kind, r.network, r.version, r.caller, r.at, r.at, 'queued',
  r.snapshot::jsonb, r.parent_id
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::timestamptz[],
  $9::text[], $10::uuid[]) AS r (id, agent_id, project_id, kind, network, version, caller, at, snapshot, parent_id)
ON CONFLICT (id) DO NOTHING

-- Of what people are asked, only what is open is kept: the changes of a run come in their order, each once.
-- name: change_runs
UPDATE history.agent_execution_history AS h SET
  status = CASE WHEN COALESCE(r.status, h.status) NOT IN ('running', 'waiting') THEN COALESCE(r.status, h.status)
    WHEN (h.waits || r.waits::jsonb) @? '$.* ? (@ == true)' THEN 'waiting' ELSE 'running' END,
  waits = (SELECT COALESCE(jsonb_object_agg(w.key, w.value) FILTER (WHERE w.value = 'true'), '{}')
    FROM jsonb_each(h.waits || r.waits::jsonb) AS w),
  started_at = COALESCE(r.started_at, h.started_at),
  completed_at = COALESCE(r.completed_at, h.completed_at),
  total_steps = COALESCE(r.total_steps, h.total_steps),
  final_status = COALESCE(r.final_status, h.final_status),
  reason = COALESCE(r.reason, h.reason),
  escalation_reason = COALESCE(r.escalation_reason, h.escalation_reason),
  total_cost_usd = COALESCE(r.total_cost_usd::numeric, h.total_cost_usd),
  total_tokens = COALESCE(r.total_tokens, h.total_tokens),
  state_snapshot = h.state_snapshot || r.snapshot::jsonb
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::text[], $7::text[],
  $8::text[], $9::float8[], $10::bigint[], $11::text[], $12::text[]) AS r (id, status, started_at, completed_at,
  total_steps, final_status, reason, escalation_reason, total_cost_usd, total_tokens, snapshot, waits)
WHERE h.id = r.id

-- Where the run itself has judged a step (its validation says `success`), that stands above how each attempt went.
-- name: merge_steps
INSERT INTO history.agent_execution_steps AS s (
  execution_id, step_number, id, project_id, "timestamp", ended_at, agent_id, epoch, input_preview, reasoning, action,
  result, validation, success, error, attempt_number, tokens_used, cost_usd, decisions, progress, confidence)
SELECT r.execution_id, r.step_number, r.id, r.project_id, r.began_at, r.ended_at, r.agent_id, r.epoch, r.input_preview,
  r.reasoning, r.action::jsonb, r.result::jsonb, r.validation::jsonb, r.success, r.error, r.attempts, r.tokens,
  r.cost::numeric, r.decisions::jsonb, r.progress, r.confidence
FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::int[],
  $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bool[], $15::text[], $16::int[], $17::bigint[],
  $18::float8[], $19::text[], $20::float8[], $21::float8[]) AS r (execution_id, step_number, id, project_id, began_at,
  ended_at, agent_id, epoch, input_preview, reasoning, action, result, validation, success, error, attempts, tokens,
  cost, decisions, progress, confidence)
ON CONFLICT (execution_id, step_number) DO UPDATE SET
  "timestamp" = LEAST(s."timestamp", excluded."timestamp"),
  ended_at = GREATEST(s.ended_at, excluded.ended_at),
  agent_id = COALESCE(excluded.agent_id, s.agent_id),
  epoch = COALESCE(excluded.epoch, s.epoch),
  input_preview = COALESCE(excluded.input_preview, s.input_preview),
  reasoning = COALESCE(excluded.reasoning, s.reasoning),
  action = COALESCE(excluded.action, s.action),
  result = COALESCE(s.result || excluded.result, excluded.result, s.result),
  validation = CASE WHEN excluded.validation ? 'success' THEN COALESCE(s.validation, '{}') || excluded.validation
    ELSE COALESCE(excluded.validation, s.validation) END,
  success = CASE WHEN excluded.validation ? 'success' THEN excluded.success
    WHEN excluded.success IS NULL THEN s.success ELSE COALESCE(s.success, true) AND excluded.success END,
  error = CASE WHEN excluded.validation ? 'success' AND excluded.success THEN NULL
    ELSE COALESCE(excluded.error, s.error) END,
  attempt_number = s.attempt_number + excluded.attempt_number,
  tokens_used = s.tokens_used + excluded.tokens_used,
  cost_usd = s.cost_usd + excluded.cost_usd,
  decisions = COALESCE(s.decisions || excluded.decisions, excluded.decisions, s.decisions),
  progress = COALESCE(excluded.progress, s.progress),
  confidence = COALESCE(excluded.confidence, s.confidence)

-- name: steps_of_goals
SELECT s.execution_id, s.step_number, s."timestamp", s.duration_ms, s.reasoning, s.action::text AS action,
  s.result::text AS result, s.validation::text AS validation, s.decisions::text AS decisions, s.success, s.error,
  s.attempt_number, s.tokens_used, s.cost_usd::float8 AS cost_usd, s.progress
FROM unnest($1::uuid[]) AS r (id)
JOIN history.agent_execution_history h ON h.id = r.id AND h.kind <> 'network'
CROSS JOIN LATERAL (
  SELECT * FROM history.agent_execution_steps x WHERE x.execution_id = r.id ORDER BY x.step_number DESC LIMIT $2) s
ORDER BY s.execution_id, s.step_number

-- name: add_final_states
UPDATE history.agent_execution_history h SET state_snapshot = h.state_snapshot || r.state::jsonb
FROM unnest($1::uuid[], $2::text[]) AS r (id, state) WHERE h.id = r.id

-- name: merge_tools
INSERT INTO history.tool_execution AS t (
  run_id, execution_id, project_id, step_number, call_index, agent_id, tool, status, args, result, result_digest,
  result_bytes, blob, failure, denial, duration_ms, worker, policy_version, requested_at, finished_at)
SELECT r.run_id, r.execution_id, r.project_id, r.step_number, r.call_index, r.agent_id, r.tool, r.status, r.args::json,
  r.result::json, r.result_digest, r.result_bytes, r.blob, r.failure::json, r.denial::json, r.duration_ms, r.worker,
  r.policy_version, r.requested_at, r.finished_at
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::text[], $11::text[], $12::bigint[], $13::bool[], $14::text[], $15::text[], $16::int[], $17::text[], $18::int[],
  $19::timestamptz[], $20::timestamptz[]) AS r (run_id, execution_id, project_id, step_number, call_index, agent_id,
  tool, status, args, result, result_digest, result_bytes, blob, failure, denial, duration_ms, worker, policy_version,
  requested_at, finished_at)
ON CONFLICT (run_id, execution_id) DO UPDATE SET
  status = excluded.status,
  args = COALESCE(excluded.args, t.args),
  result = COALESCE(excluded.result, t.result),
  result_digest = COALESCE(excluded.result_digest, t.result_digest),
  result_bytes = COALESCE(excluded.result_bytes, t.result_bytes),
  blob = COALESCE(excluded.blob, t.blob),
  failure = COALESCE(excluded.failure, t.failure),
  denial = COALESCE(excluded.denial, t.denial),
  duration_ms = COALESCE(excluded.duration_ms, t.duration_ms),
  worker = COALESCE(excluded.worker, t.worker),
  policy_version = COALESCE(excluded.policy_version, t.policy_version),
  requested_at = COALESCE(excluded.requested_at, t.requested_at),
  finished_at = COALESCE(excluded.finished_at, t.finished_at)

-- What a day costs, by network, caller, agent, model and label of the task. A name for which there is no room that day, since
-- $10 others have come before, is counted under ''. Rows in one order, so that two writers can't block each other.
-- name: add_costs
WITH said AS MATERIALIZED (
  SELECT h.project_id AS project, h.network, h.caller, h.state_snapshot -> 'labels' AS labels, c.*
  FROM unnest($1::uuid[], $2::date[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::float8[],
    $9::bigint[]) AS c (run_id, day, agent, model, runs, calls, tokens, usd, unpriced)
  JOIN history.agent_execution_history h ON h.id = c.run_id),
named AS (
  SELECT s.project, p.part, s.day, left(p.name, 256) AS name, s.runs, s.calls, s.tokens, s.usd::numeric AS usd, s.unpriced
  FROM said s CROSS JOIN LATERAL (
    VALUES ('network', s.network), ('caller', s.caller), ('agent', s.network || '/' || nullif(s.agent, '')), ('model', nullif(s.model, ''))
    UNION ALL
    SELECT 'label', l.key || '=' || l.value
    FROM jsonb_each_text(CASE jsonb_typeof(s.labels) WHEN 'object' THEN s.labels ELSE '{}' END) l) AS p (part, name)
  WHERE p.name IS NOT NULL),
summed AS (
  SELECT project, part, day, name, sum(runs) AS runs, sum(calls) AS calls, sum(tokens) AS tokens, sum(usd) AS usd,
    sum(unpriced) AS unpriced
  FROM named GROUP BY project, part, day, name),
placed AS (
  SELECT n.project, n.part, n.day, n.runs, n.calls, n.tokens, n.usd, n.unpriced,
    CASE WHEN EXISTS (SELECT FROM history.cost k WHERE (k.project, k.part, k.day, k.name) = (n.project, n.part, n.day, n.name))
      OR (SELECT count(*) FROM history.cost k WHERE (k.project, k.part, k.day) = (n.project, n.part, n.day)) < $10
      THEN n.name ELSE '' END AS name
  FROM summed n)
INSERT INTO history.cost AS c (project, part, day, name, runs, calls, tokens, usd, unpriced)
SELECT project, part, day, name, sum(runs), sum(calls), sum(tokens), sum(usd), sum(unpriced) FROM placed
GROUP BY project, part, day, name ORDER BY project, part, day, name
ON CONFLICT (project, part, day, name) DO UPDATE SET runs = c.runs + excluded.runs, calls = c.calls + excluded.calls,
  tokens = c.tokens + excluded.tokens, usd = c.usd + excluded.usd, unpriced = c.unpriced + excluded.unpriced

-- name: costs
SELECT name, sum(runs)::bigint AS runs, sum(calls)::bigint AS model_calls, sum(tokens)::bigint AS tokens,
  sum(usd)::float8 AS usd, sum(unpriced)::bigint AS unpriced, count(*) OVER () AS names
FROM history.cost WHERE project = $1 AND part = $2 AND day >= $3
GROUP BY name ORDER BY sum(usd) DESC, sum(tokens) DESC, name LIMIT $4

-- name: cost_days
SELECT day, sum(runs)::bigint AS runs, sum(calls)::bigint AS model_calls, sum(tokens)::bigint AS tokens,
  sum(usd)::float8 AS usd, sum(unpriced)::bigint AS unpriced
FROM history.cost WHERE project = $1 AND part = 'network' AND day >= $2 GROUP BY day ORDER BY day

-- Rows that somebody is adding to are left for the next time.
-- name: forget_costs
WITH past AS (
  SELECT project, part, day, name FROM history.cost WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::integer
  ORDER BY project, part, day, name FOR UPDATE SKIP LOCKED)
DELETE FROM history.cost c USING past p WHERE (c.project, c.part, c.day, c.name) = (p.project, p.part, p.day, p.name)

-- name: unpriced_models
SELECT name, sum(unpriced)::bigint AS unpriced FROM history.cost
WHERE project = $1 AND part = 'model' AND day >= $2 AND unpriced > 0 GROUP BY name ORDER BY 2 DESC, name LIMIT $3

-- name: skip_events
INSERT INTO history.skipped_event (run_id, seq, type, error)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[])
ON CONFLICT (run_id, seq) DO NOTHING

-- name: add_llm_calls
INSERT INTO history.llm_call (
  run_id, request_id, attempt, call, project_id, step_number, agent_id, kind, model, started_at, duration_ms,
  input_tokens, output_tokens, total_tokens, cost_usd, price_source, prompt_digest, raw_digest, prompt, raw_text, error,
  cached_tokens, cache_write_tokens)
SELECT r.run_id, r.request_id, r.attempt, r.call, r.project_id, r.step_number, r.agent_id, r.kind, r.model,
  r.started_at, r.duration_ms, r.input_tokens, r.output_tokens, r.total_tokens, r.cost_usd::numeric, r.price_source,
  r.prompt_digest, r.raw_digest, r.prompt, r.raw_text, r.error, r.cached_tokens, r.cache_write_tokens
FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::int[], $7::text[], $8::text[], $9::text[],
  $10::timestamptz[], $11::int[], $12::bigint[], $13::bigint[], $14::bigint[], $15::float8[], $16::text[], $17::text[],
  $18::text[], $19::text[], $20::text[], $21::text[], $22::bigint[], $23::bigint[]) AS r (run_id, request_id, attempt, call, project_id, step_number,
  agent_id, kind, model, started_at, duration_ms, input_tokens, output_tokens, total_tokens, cost_usd, price_source,
  prompt_digest, raw_digest, prompt, raw_text, error, cached_tokens, cache_write_tokens)
WHERE NOT EXISTS (SELECT FROM history.run_cursor c WHERE c.run_id = r.run_id AND c.erased)
ON CONFLICT (run_id, request_id, attempt, call) DO NOTHING

-- A worker speaks for runs of its own project and calls of the named tool only; what it logs before their first events
-- came is taken in. `toolset` is that of the worker's credential.
-- name: add_tool_logs
INSERT INTO history.tool_log (run_id, execution_id, id, project_id, toolset, tool, worker, at, level, message, fields)
SELECT r.run_id, r.execution_id, r.id, r.project_id, r.toolset, r.tool, r.worker, r.at, r.level, r.message,
  r.fields::json
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
  $9::text[], $10::text[], $11::text[])
  AS r (run_id, execution_id, id, project_id, toolset, tool, worker, at, level, message, fields)
WHERE NOT EXISTS (SELECT FROM history.run_cursor c
                  WHERE c.run_id = r.run_id AND (c.project <> r.project_id OR c.erased))
  AND NOT EXISTS (SELECT FROM history.tool_execution t
    WHERE t.run_id = r.run_id AND t.execution_id = r.execution_id AND t.tool <> r.tool)
ON CONFLICT (run_id, execution_id, id) DO NOTHING

-- name: swept_until
SELECT since FROM history.sweep

-- name: set_swept
UPDATE history.sweep SET since = $1 WHERE since < $1

-- name: run_history
SELECT c.seq, row_to_json(h)::text AS history
FROM history.run_cursor c JOIN history.agent_execution_history h ON h.id = c.run_id
WHERE c.run_id = $1 AND h.project_id = $2

-- name: erased_how
SELECT CASE WHEN pruned THEN 'pruned, as old runs are' ELSE 'erased' END FROM history.run_cursor
WHERE run_id = $1 AND project = $2 AND erased

-- name: run_steps
SELECT step_number, row_to_json(s)::text AS step FROM history.agent_execution_steps s
WHERE execution_id = $1 AND step_number > $2 ORDER BY step_number LIMIT $3

-- name: step_tools
SELECT t.step_number, t.tool_execution::text AS tool_execution FROM (
  SELECT x.step_number, x.call_index, row_to_json(x) AS tool_execution FROM history.tool_execution x
  WHERE x.run_id = $1 AND x.step_number BETWEEN $2 AND $3) t
ORDER BY t.step_number, t.call_index

-- What the events say of a decision stands for model calls whose logs were lost, or that were never sent (scripts). An
-- attempt that was put off has its number behind the id of the request.
-- name: llm_calls
SELECT call FROM (
  SELECT l.step_number, l.started_at AS at, l.attempt, l.call AS nth, row_to_json(l)::text AS call
  FROM history.llm_call l
  WHERE l.run_id = $1 AND l.project_id = $2 AND ($5::integer IS NULL OR l.step_number = $5)
  UNION ALL
  SELECT s.step_number, (d.value ->> 'at')::timestamptz, 0, 0, json_build_object(
    'run_id', s.execution_id, 'request_id', split_part(d.key, ':', 1), 'project_id', s.project_id, 'step_number', s.step_number,
    'agent_id', s.agent_id, 'model', d.value -> 'model', 'duration_ms', d.value -> 'duration_ms',
    'input_tokens', d.value -> 'input_tokens', 'output_tokens', d.value -> 'output_tokens',
    'total_tokens', d.value -> 'total_tokens', 'cached_tokens', d.value -> 'cached_tokens',
    'cache_write_tokens', d.value -> 'cache_write_tokens', 'cost_usd', d.value -> 'cost_usd',
    'price_source', d.value -> 'price_source', 'prompt_digest', d.value -> 'prompt_digest',
    'raw_digest', d.value -> 'raw_digest', 'script', d.value -> 'script', 'error', d.value -> 'error')::text
  FROM history.agent_execution_steps s, jsonb_each(s.decisions) d
  WHERE s.execution_id = $1 AND s.project_id = $2 AND ($5::integer IS NULL OR s.step_number = $5) AND NOT EXISTS (
    SELECT FROM history.llm_call l
    WHERE l.run_id = s.execution_id AND l.request_id = split_part(d.key, ':', 1)::uuid
      AND CASE WHEN strpos(d.key, ':') > 0 THEN l.attempt = split_part(d.key, ':', 2)::integer
        ELSE NOT s.decisions ? (l.request_id || ':' || l.attempt) END)
) calls
ORDER BY step_number, at, attempt, nth
OFFSET $3 LIMIT $4

-- name: due_erasures
SELECT erasure_id, run_ids FROM history.due_erasures($1)

-- name: erase_runs
SELECT history.erase_runs($1, $2)

-- As in dead_letters.sql of the fabric: a mark of another process that is older than $3 seconds is a death.
-- name: begin_handling
INSERT INTO history.handling_mark AS m (stream, sequence, begun_at, begun_by, last) VALUES ($1, $2, now(), $4, now())
ON CONFLICT (stream, sequence) DO UPDATE SET
  deaths = m.deaths + CASE WHEN m.begun_by <> $4 AND m.begun_at < now() - make_interval(secs => $3) THEN 1 ELSE 0 END,
  begun_at = now(), begun_by = $4, last = now()
RETURNING deaths

-- name: end_handling
UPDATE history.handling_mark SET
  deaths = CASE WHEN $3 THEN 0 ELSE deaths END,
  begun_at = CASE WHEN begun_by = $4 THEN NULL ELSE begun_at END,
  begun_by = CASE WHEN begun_by = $4 THEN NULL ELSE begun_by END
WHERE stream = $1 AND sequence = $2

-- name: forget_marks
-- A message that is delivered again meanwhile has a younger one.
DELETE FROM history.handling_mark WHERE last < now() - interval '1 day'
