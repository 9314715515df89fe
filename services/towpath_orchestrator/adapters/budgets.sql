-- name: open_own_accounts
-- Accounts of runs and of agents in them; their limits come with the task and the network.
INSERT INTO runs.budget (project, scope, key, usd_micros_limit, tokens_limit, model_calls_limit, tool_calls_limit, soft, on_soft)
SELECT w.project, w.scope, w.key, w.usd_micros, w.tokens, w.model_calls, w.tool_calls, w.soft, w.on_soft
FROM json_to_recordset($1::json) AS w (project text, scope text, key text, usd_micros bigint, tokens bigint, model_calls bigint, tool_calls bigint,
  soft double precision, on_soft text)
ORDER BY w.project, w.scope, w.key
ON CONFLICT DO NOTHING

-- name: open_shared_accounts
-- Accounts of callers, projects and days. The limit is held while its copy is made: whoever changes it comes before or
-- after, and never between.
INSERT INTO runs.budget (project, scope, key, usd_micros_limit, tokens_limit, model_calls_limit, tool_calls_limit, soft, on_soft)
SELECT f.project, f.scope, f.key, f.usd_micros, f.tokens, f.model_calls, f.tool_calls, f.soft, f.on_soft
FROM (
  SELECT w.project, w.scope, w.key, l.usd_micros, l.tokens, l.model_calls, l.tool_calls, l.soft, l.on_soft
  FROM json_to_recordset($1::json) AS w (project text, scope text, key text, kind text, name text, per_day boolean)
  JOIN runs.budget_limit l ON (l.project, l.kind, l.name, l.per_day) = (w.project, w.kind, w.name, w.per_day)
  ORDER BY w.project, w.scope, w.key FOR SHARE OF l
) AS f
ON CONFLICT DO NOTHING

-- name: limits
SELECT v.version, l.project, l.kind, l.name, l.per_day, l.usd_micros, l.tokens, l.model_calls, l.tool_calls, l.soft, l.on_soft
FROM runs.budget_version v LEFT JOIN runs.budget_limit l ON true

-- name: raise_version
UPDATE runs.budget_version SET version = version + 1

-- name: set_limit
-- Nothing is set where it would be one more than $13 limits of the project.
INSERT INTO runs.budget_limit (project, kind, name, per_day, usd_micros, tokens, model_calls, tool_calls, soft, on_soft,
                               set_by, reason, set_at)
SELECT $1::text, $2::text, $3::text, $4::boolean, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::float8, $10::text,
       $11::text, $12::text, now()
WHERE (SELECT count(*) FROM runs.budget_limit l
       WHERE l.project = $1 AND (l.kind, l.name, l.per_day) <> ($2, $3, $4)) < $13::bigint
ON CONFLICT (project, kind, name, per_day) DO UPDATE SET
  usd_micros = excluded.usd_micros, tokens = excluded.tokens, model_calls = excluded.model_calls, tool_calls = excluded.tool_calls,
  soft = excluded.soft, on_soft = excluded.on_soft, set_by = excluded.set_by, reason = excluded.reason, set_at = now()
RETURNING true

-- name: lift_limit
DELETE FROM runs.budget_limit WHERE (project, kind, name, per_day) = ($1, $2, $3, $4) RETURNING project

-- name: copy_limit
-- Into the account that is open, if one is; of a limit per day into that of today.
UPDATE runs.budget SET usd_micros_limit = $5, tokens_limit = $6, model_calls_limit = $7, tool_calls_limit = $8,
  soft = $9, on_soft = $10
WHERE project = $1 AND CASE WHEN $4::boolean THEN
    scope = 'day' AND key = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') || '/' || $2 || '/' || $3
  ELSE scope = $2 AND key = $3 END

-- name: shared_accounts
-- What people have limited in a project, with what is spent of it; of limits per day today's account.
SELECT w.scope, w.key, l.soft, l.on_soft, l.set_by, l.set_at,
  l.usd_micros AS usd_micros_limit, coalesce(b.usd_micros_spent, 0) AS usd_micros_spent, coalesce(b.usd_micros_reserved, 0) AS usd_micros_reserved,
  coalesce(b.usd_micros_estimated, 0) AS usd_micros_estimated,
  l.tokens AS tokens_limit, coalesce(b.tokens_spent, 0) AS tokens_spent, coalesce(b.tokens_reserved, 0) AS tokens_reserved,
  coalesce(b.tokens_estimated, 0) AS tokens_estimated,
  l.model_calls AS model_calls_limit, coalesce(b.model_calls_spent, 0) AS model_calls_spent, coalesce(b.model_calls_reserved, 0) AS model_calls_reserved,
  coalesce(b.model_calls_estimated, 0) AS model_calls_estimated,
  l.tool_calls AS tool_calls_limit, coalesce(b.tool_calls_spent, 0) AS tool_calls_spent, coalesce(b.tool_calls_reserved, 0) AS tool_calls_reserved,
  coalesce(b.tool_calls_estimated, 0) AS tool_calls_estimated
FROM runs.budget_limit l
CROSS JOIN LATERAL (SELECT CASE WHEN l.per_day THEN 'day' ELSE l.kind END AS scope, CASE WHEN l.per_day
  THEN to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') || '/' || l.kind || '/' || l.name ELSE l.name END AS key) AS w
LEFT JOIN runs.budget b ON b.project = l.project AND b.scope = w.scope AND b.key = w.key
WHERE l.project = $1 AND ($2::text IS NULL OR l.kind = 'caller' AND l.name = $2)
ORDER BY array_position(ARRAY['caller', 'project', 'day'], w.scope), w.key LIMIT $3

-- name: budget_root
-- The run with which a fork shares its accounts; itself for any other. The first event may hold NUL.
SELECT coalesce(replace(e.event::text, '\u0000', '\ufffd')::json->>'budget_root', $1::uuid::text)
FROM runs.run_event e WHERE e.run_id = $1 AND e.seq = 1

-- name: run_accounts
-- The account of a run and those of agents in it, whose keys begin with its id.
SELECT b.*, '' AS set_by, NULL::timestamptz AS set_at FROM (
  SELECT r.* FROM runs.budget r WHERE r.project = $1 AND r.scope = 'run' AND r.key = $2
  UNION ALL
  SELECT a.* FROM runs.budget a WHERE a.project = $1 AND a.scope = 'agent' AND split_part(a.key, '/', 1) = $2) AS b
ORDER BY b.scope DESC, b.key LIMIT $3

-- name: forget_past_days
SELECT runs.forget_past_days()
