-- What operators see of the platform as a whole. Each statement reads one small index and no table of runs.

-- name: gates
-- Those that wait for people. Everything comes from the index gate_pending.
SELECT gate_type, count(*) AS pending, extract(epoch FROM now() - min(opened_at))::float8 AS oldest_s
FROM runs.gate WHERE status = 'pending' GROUP BY gate_type

-- name: dead_letters
-- At most a thousand open ones of a stream and project are stored.
SELECT stream, count(*) AS open FROM runs.dead_letter WHERE status = 'dead' GROUP BY stream

-- name: quarantined
SELECT count(*) AS runs, clock_timestamp() AS at FROM runs.run WHERE status = 'quarantined'

-- name: budgets
-- The highest used share of any limit that people have set, by what it limits; NULL where nothing is limited.
SELECT max((b.usd_micros_spent + b.usd_micros_reserved)::float8 / nullif(l.usd_micros, 0)) AS usd,
  max((b.tokens_spent + b.tokens_reserved)::float8 / nullif(l.tokens, 0)) AS tokens,
  max((b.model_calls_spent + b.model_calls_reserved)::float8 / nullif(l.model_calls, 0)) AS model_calls,
  max((b.tool_calls_spent + b.tool_calls_reserved)::float8 / nullif(l.tool_calls, 0)) AS tool_calls
FROM runs.budget_limit l
CROSS JOIN LATERAL (SELECT CASE WHEN l.per_day THEN 'day' ELSE l.kind END AS scope, CASE WHEN l.per_day
  THEN to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') || '/' || l.kind || '/' || l.name ELSE l.name END AS key) AS w
JOIN runs.budget b ON b.project = l.project AND b.scope = w.scope AND b.key = w.key
