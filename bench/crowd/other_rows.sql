-- name: dead_letters
INSERT INTO runs.dead_letter (at, stream, subject, run_id, reason, body, project, delivery, status, settled_at, settled_by,
                              settled_reason)
SELECT now() - interval '1 minute' * n, 'FACTS', 'facts.run', (SELECT run_id FROM runs.run ORDER BY run_id LIMIT 1),
       'the fact names a step that the run has not reached', convert_to(repeat('{"step": 7} ', 20), 'UTF8'), 'default',
       -n, CASE WHEN n <= $1::integer / 10 THEN 'dead' ELSE 'discarded' END,
       CASE WHEN n > $1::integer / 10 THEN now() END, '', '' FROM generate_series($1::integer, 1, -1) AS n

-- name: notices
INSERT INTO runs.notice (notice_id, webhook, gate_id, project, kind, body, status, tries, created_at, ended_at, error)
SELECT gen_random_uuid(), 'ops', g.gate_id, g.project, 'gate.opened', '{}', CASE WHEN g.n % 50 = 0 THEN 'dead' ELSE 'sent' END,
       1, g.opened_at, g.opened_at, '' FROM (SELECT *, row_number() OVER () AS n FROM runs.gate LIMIT $1) g

-- name: callers
INSERT INTO gateway.principal (caller, project) SELECT 'caller-' || n, 'default' FROM generate_series(1, $1::integer) n

-- name: keys
INSERT INTO gateway.api_key (prefix, secret_digest, caller, scopes, roles, created_by, expires_at)
SELECT 'crowd' || lpad(n::text, 7, '0'), sha256(int4send(n)), 'caller-' || n, '{runs:read}', '{viewer}', 'local',
       now() + interval '1 year' FROM generate_series(1, $1::integer) n

-- name: erasures
INSERT INTO tas.erasure (erasure_id, project, kind, caller, reason, status, requested_by, requested_at, alone_from, decided_by,
                         decided_at, erased, done_at)
SELECT crowd_at.id, 'default', 'payloads', 'caller-' || n, 'asked for by the customer', 'done', 'local', now(), now(),
       'local', now(), 3, now()
FROM generate_series(1, $1::integer) n, LATERAL (
  SELECT (lpad(to_hex((extract(epoch FROM now() - interval '1 minute' * n) * 1000)::bigint), 12, '0') || '7' ||
          substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS id) crowd_at

-- name: limits
INSERT INTO runs.budget_limit (project, kind, name, per_day, usd_micros, soft, on_soft, set_by, set_at)
SELECT 'default', 'caller', 'caller-' || n, false, 1000000, 0.8, 'warn', 'local', now() FROM generate_series(1, $1::integer) n

-- name: accounts
INSERT INTO runs.budget (project, scope, key, usd_micros_limit, usd_micros_spent, soft, on_soft)
SELECT r.project, 'run', r.run_id::text, 1000000, 1200, 0.8, 'warn' FROM runs.run r

-- name: idempotency
INSERT INTO runs.idempotency (project, caller, key, request_digest, run_id, created_at)
SELECT r.project, r.caller, r.run_id::text, '', r.run_id, r.created_at FROM runs.run r ON CONFLICT DO NOTHING
