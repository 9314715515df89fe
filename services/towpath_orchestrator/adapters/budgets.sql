-- name: commit_charged
-- In the place of `held` in commit_batch, where runs of the batch spend from accounts: the accounts
-- are locked after the run rows, in key order, and a run that does not fit is left out. Runs of one batch are taken in
-- turn: first those that only give back. What a run gives back that asks for something, too, is nobody else's before it
-- has moved: where one of its accounts has no room it keeps what it holds in all of them. `alone` says whether the run
-- would not fit by itself either. Where money is limited nothing fits that nobody knows the price of: `unpriced` names
-- such a model.
locked AS (
  SELECT r.run_id FROM runs.run r JOIN wanted w ON w.run_id = r.run_id AND w.expected = r.seq
  ORDER BY r.run_id FOR UPDATE OF r
), charge AS (
  SELECT c.* FROM json_to_recordset($24::json) AS c (run_id uuid, project text, scope text, key text, unpriced text,
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
)

-- name: commit_charges
-- Joined after commit_moved: what the runs that moved on have reserved, given back and spent. Told are the refusals, and
-- the accounts of which so much is spent that somebody wants to know.
charged AS (
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
INSERT INTO runs.budget_limit (project, kind, name, per_day, usd_micros, tokens, model_calls, tool_calls, soft, on_soft,
                               set_by, reason, set_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now())
ON CONFLICT (project, kind, name, per_day) DO UPDATE SET
  usd_micros = excluded.usd_micros, tokens = excluded.tokens, model_calls = excluded.model_calls, tool_calls = excluded.tool_calls,
  soft = excluded.soft, on_soft = excluded.on_soft, set_by = excluded.set_by, reason = excluded.reason, set_at = now()

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

-- name: run_accounts
SELECT b.*, '' AS set_by, NULL::timestamptz AS set_at FROM runs.budget b
WHERE b.project = $1 AND (b.scope = 'run' AND b.key = $2 OR b.scope = 'agent' AND starts_with(b.key, $2 || '/'))
ORDER BY b.scope DESC, b.key LIMIT $3
