-- Many rows by generate_series, as uneven as those of real platforms: one project has 60 % and others a long tail, one network
-- has most runs, of some statuses, tools and networks there are hardly any, one run has very many children, and the last
-- months are busier than the first. $1 is how many runs.

-- name: prepare
-- Ids tell their time, as those of real runs do.
CREATE SCHEMA bench;
CREATE FUNCTION bench.id_of(kind text, n bigint, at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(lpad(to_hex(n), 15, '0'), 1, 3)
          || '8' || substr(lpad(to_hex(n), 15, '0'), 4, 12) || substr(md5(kind), 1, 3))::uuid
$$;
CREATE TABLE bench.run (n bigint PRIMARY KEY, run_id uuid NOT NULL, call_id uuid NOT NULL, at timestamptz NOT NULL,
  project text NOT NULL, network text NOT NULL, caller text NOT NULL) WITH (autovacuum_enabled = off);

-- name: partitions
-- Those of the months that have passed, which a platform of that age has.
DO $$
DECLARE
  month timestamptz := date_trunc('month', now() - interval '732 days');
  parent text;
BEGIN
  WHILE month < date_trunc('month', now()) LOOP
    FOREACH parent IN ARRAY ARRAY['runs.run_event', 'runs.run_fact', 'tas.tool_call'] LOOP
      EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', parent, to_char(month, 'YYYYMM'),
                     parent, runs.uuid_at(month), runs.uuid_at(month + interval '1 month'));
    END LOOP;
    month := month + interval '1 month';
  END LOOP;
END $$

-- name: ids
-- A hundred runs that follow each other are of one project, so that trees and threads are. `project-small` has one such
-- hundred of a thousand.
INSERT INTO bench.run
SELECT n, bench.id_of('run', n, t.at), bench.id_of('call', n, t.at), t.at, CASE
  WHEN n < 200 OR n / 100 BETWEEN $1::bigint / 200 AND ($1::bigint / 2 + least($1::bigint / 100, 5000)) / 100 THEN 'default'
  WHEN n / 100 % 1000 = 17 THEN 'project-small'
  WHEN n / 100 % 10 < 6 THEN 'default' ELSE 'project-' || floor(40 * power(n / 100 * 7919 % 1009 / 1009.0::float8, 3))::text END,
  CASE WHEN n % ($1::bigint / 5) = 7 THEN 'rare' WHEN n % 10 IN (0, 4, 8) THEN 'network-' || n / 10 % 50 ELSE 'support' END,
  'caller-' || floor(500 * power(n * 7919 % 10007 / 10007.0::float8, 4))::text
FROM generate_series(1, $1::bigint) n CROSS JOIN LATERAL (
  SELECT now() - interval '1 minute' - interval '730 days' * power(1 - n::float8 / $1::bigint, 1.3) AS at) t

-- name: runs
-- Every hundredth run has ten children, and one in the middle 5,000 at most. The first runs are a thread.
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, reason, seq, caller, priority, step,
  max_steps, user_message, labels, created_at, started_at, ended_at, updated_at, wake_at, queue_at, parent_run_id, root_run_id,
  depth, thread_id, continues)
SELECT b.run_id, b.project, CASE WHEN b.n % 40 = 3 THEN 'swarm' WHEN b.n % ($1::bigint / 5) = 11 THEN 'plan' ELSE 'network' END,
  b.network, 1, 'sha256:0', s.status, '', 12, b.caller, 5, 4, 10,
  'where is order ' || b.n || ' of ours?', jsonb_build_object('team', 'team-' || b.n % 100, 'case', b.n::text)
    || CASE WHEN b.n % ($1::bigint / 5) = 13 THEN '{"rare": "yes"}' ELSE '{}' END::jsonb,
  b.at, b.at, CASE WHEN s.live THEN NULL ELSE b.at + interval '9 seconds' END, b.at + interval '9 seconds',
  CASE WHEN s.live THEN now() + interval '30 days' END, b.at, p.run_id, p.run_id, CASE WHEN k.parent IS NULL THEN 0 ELSE 1 END,
  CASE WHEN b.n BETWEEN 2 AND 100 THEN (SELECT o.run_id FROM bench.run o WHERE o.n = 1) END,
  CASE WHEN b.n BETWEEN 2 AND 100 THEN (SELECT o.run_id FROM bench.run o WHERE o.n = b.n - 1) END
FROM bench.run b
CROSS JOIN LATERAL (SELECT CASE
    WHEN b.n > $1::bigint - 100 THEN 'running' WHEN b.n > $1::bigint - 2000 THEN 'queued'
    WHEN b.n % 500 = 5 THEN 'waiting' WHEN b.n % ($1::bigint / 5) = 17 THEN 'quarantined'
    WHEN b.n % 50 = 1 THEN 'failed' WHEN b.n % 1000 = 2 THEN 'escalated' WHEN b.n % ($1::bigint / 5) = 3 THEN 'timed_out'
    ELSE 'completed' END AS status, CASE
    WHEN b.n > $1::bigint / 2 AND b.n <= $1::bigint / 2 + least($1::bigint / 100, 5000) THEN $1::bigint / 2
    WHEN b.n > 100 AND b.n % 100 BETWEEN 1 AND 10 THEN b.n - b.n % 100 END AS parent) k
CROSS JOIN LATERAL (SELECT k.status, k.status IN ('running', 'queued', 'waiting') AS live) s
CROSS JOIN LATERAL (SELECT CASE WHEN k.parent IS NOT NULL THEN (SELECT o.run_id FROM bench.run o WHERE o.n = k.parent) END) p (run_id)

-- name: events
-- The first events of each tenth run, and the whole log of the one that is asked about most.
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT b.run_id, 1, b.at, 'run_created', '{"type": "run_created"}' FROM bench.run b WHERE b.n % 10 = 0

-- name: long_log
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT b.run_id, s, b.at, 'note_added', '{"type": "note_added", "step": 1, "text": "the answer is to be short"}'
FROM bench.run b, generate_series(2, 5000) s WHERE b.n = $1::bigint / 2

-- name: gates
-- A gate for each fifth run; those of the waiting runs are open.
INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, tool, rule, opened_at, expires_at,
  closed_at, closed_by, verdict, noticed, assigned_to)
SELECT bench.id_of('gate', b.n, b.at), b.run_id, b.project, b.network, 'approval', k.status, 'refunds are looked at', '{"type": "approval"}',
  CASE WHEN b.n % ($1::bigint / 5) = 5 THEN 'tools.rare' WHEN b.n % 100 = 15 THEN 'tools.' || b.n % 40 ELSE 'orders.refund' END,
  CASE WHEN b.n % ($1::bigint / 5) = 5 THEN 'rule-rare' ELSE 'rule-' || b.n % 20 END, b.at, b.at + interval '90 days',
  CASE WHEN k.status <> 'pending' THEN b.at + interval '5 seconds' END, 'person', '', k.status,
  CASE WHEN b.n % 50000 = 5 THEN 'role:rare' WHEN b.n % 100 = 5 THEN 'person-' || b.n % 7 ELSE '' END
FROM bench.run b CROSS JOIN LATERAL (SELECT CASE WHEN b.n % 500 = 5 AND b.n <= $1::bigint - 2000 THEN 'pending'
  WHEN b.n % 200 = 110 THEN 'denied' WHEN b.n % 2000 = 10 THEN 'expired'
  WHEN b.n % ($1::bigint / 5) = 15 THEN 'void' ELSE 'approved' END AS status) k
WHERE b.n % 5 = 0

-- name: calls
-- The ledger of each fifth run.
INSERT INTO tas.tool_call (run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step, call_index,
  tool, operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status, fence, attempt, deadline,
  policy_version, approvals, claims, accepted, settled_by, revision, created_at, updated_at)
SELECT b.run_id, b.call_id, b.project, b.network, 'sha256:0', 'clerk', 'llm', b.caller, 1, 0,
  'orders.refund', 'write', 'orders', 1, 'idempotent', 60000, '{"order": 7}', 'sha256:1', '{}', 'succeeded', 0, 1, b.at, 1, 0, '[]', '',
  '', 3, b.at, b.at FROM bench.run b WHERE b.n % 5 = 0

-- name: entries
-- Four entries for each run, in the order of their times: decision, claim, dispatch and outcome.
INSERT INTO tas.audit_record (entry_id, at, project, run_id, execution_id, phase, verdict, tool, operation, network, agent_key, caller,
  actor, rule, policy_version, commitment) OVERRIDING SYSTEM VALUE
SELECT b.n * 4 - 4 + k.place, b.at + interval '1 millisecond' * k.place, b.project, b.run_id, b.call_id, k.phase, k.verdict,
  CASE WHEN b.n % ($1::bigint / 5) = 5 THEN 'tools.rare' WHEN b.n % 10 = 0 THEN 'tools.' || b.n % 40 ELSE 'orders.refund' END,
  'write', b.network, CASE WHEN b.n % ($1::bigint / 5) = 19 THEN 'agent-rare' ELSE 'clerk' END, b.caller,
  CASE WHEN b.n % ($1::bigint / 5) = 23 THEN 'person-rare' WHEN k.phase = 'outcome' THEN 'worker-' || b.n % 20 ELSE '' END,
  'rule-' || b.n % 20, 1, sha256(int8send(b.n))
FROM bench.run b CROSS JOIN LATERAL (VALUES
  (1, 'decision', CASE WHEN b.n % 50 = 1 THEN 'deny' WHEN b.n % 5 = 0 THEN 'require_approval' ELSE 'allow' END),
  (2, 'claim', 'granted'), (3, 'dispatch', 'sent'),
  (4, 'outcome', CASE WHEN b.n % ($1::bigint / 5) = 29 THEN 'unknown' WHEN b.n % 100 = 3 THEN 'failed' ELSE 'succeeded' END)
) AS k (place, phase, verdict)

-- name: last_entry
SELECT setval('tas.audit_record_entry_id_seq', $1::bigint * 4)

-- name: payloads
INSERT INTO tas.audit_payload (entry_id, salt, args_digest, detail)
SELECT n, '\x00000000000000000000000000000000', CASE WHEN n % ($1::bigint * 4 / 5) = 9 THEN 'sha256:rare' ELSE 'sha256:1' END,
  '{"tool_version": 1, "effect_class": "idempotent"}' FROM generate_series(1, $1::bigint * 4) n

-- name: leaves
-- All leaves have one hash, so that checkpoints over millions of them are made at once: nothing here verifies entries.
INSERT INTO tas.audit_leaf (leaf_index, entry_id, hash)
SELECT n - 1, n, $2::bytea FROM generate_series(1, $1::bigint * 4) n

-- name: sealed
-- When the last entries of checkpoints were written.
SELECT entry_id, at FROM tas.audit_record WHERE entry_id % $1::bigint = 0 ORDER BY entry_id

-- name: own_entries
-- What the log says of itself, here and there: that payloads were erased, and segments dropped.
UPDATE tas.audit_record SET phase = CASE WHEN entry_id % 2 = 0 THEN 'audit.erased' ELSE 'audit.erase_requested' END
WHERE entry_id IN (SELECT DISTINCT (m * x)::bigint FROM (SELECT max(entry_id) - 7 AS m FROM tas.audit_record) o,
                   unnest(ARRAY[0.2, 0.5, 0.7]::float8[]) x)

-- name: approvals
INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason, requested_by, expires_at,
  decided_by, decided_reason, opened_at)
SELECT bench.id_of('approval', b.n, b.at), b.run_id, b.call_id, b.project, 'consumed', '', '', 'rule-1', '',
  'caller-1', b.at, 'person', '', b.at FROM bench.run b WHERE b.n % 5 = 0

-- name: votes
INSERT INTO tas.approval_vote (approval_id, actor, verdict, reason, digest, at)
SELECT bench.id_of('approval', b.n, b.at), 'person', 'approved', 'fine', '', b.at FROM bench.run b WHERE b.n % 5 = 0

-- name: accounts
INSERT INTO runs.budget (project, scope, key, usd_micros_limit, usd_micros_spent, soft, on_soft)
SELECT b.project, k.scope, k.key, 1000000, 1200, 0.8, 'warn' FROM bench.run b CROSS JOIN LATERAL (
  VALUES ('run', b.run_id::text), ('agent', b.run_id || '/clerk')) AS k (scope, key) WHERE b.n % 10 = 0

-- name: limits
INSERT INTO runs.budget_limit (project, kind, name, per_day, usd_micros, soft, on_soft, set_by, set_at)
SELECT 'default', 'caller', 'caller-' || n, false, 1000000, 0.8, 'warn', 'local', now() FROM generate_series(1, 500) n

-- name: letters
INSERT INTO runs.dead_letter (at, stream, subject, run_id, reason, body, project, delivery, status, settled_at, settled_by,
  settled_reason)
SELECT b.at, CASE WHEN b.n % 1000 = 0 THEN 'TOOLOUT' ELSE 'INBOX' END, 'run.inbox', b.run_id, 'a step that was not reached',
  convert_to(repeat('{"step": 7} ', 20), 'UTF8'), b.project, b.n, CASE WHEN b.n % 500 = 0 THEN 'dead'
    WHEN b.n % ($1::bigint / 5) = 50 THEN 'requeued' ELSE 'discarded' END, b.at, 'person', '' FROM bench.run b WHERE b.n % 50 = 0

-- name: notices
INSERT INTO runs.notice (notice_id, webhook, gate_id, project, kind, body, status, tries, created_at, ended_at, error)
SELECT bench.id_of('notice', b.n, b.at), 'ops', bench.id_of('gate', b.n, b.at), b.project, 'gate.opened', '{}',
  CASE WHEN b.n % ($1::bigint / 5) = 5 THEN 'dead' ELSE 'sent' END, 1, b.at, b.at, '' FROM bench.run b WHERE b.n % 5 = 0

-- name: callers
INSERT INTO gateway.principal (caller, project) SELECT 'caller-' || n, CASE WHEN n % 100 = 0 THEN 'project-1' ELSE 'default' END
FROM generate_series(1, greatest(500, $1::integer / 500)) n

-- name: keys
INSERT INTO gateway.api_key (prefix, secret_digest, caller, scopes, roles, created_by, created_at, expires_at)
SELECT 'bench' || lpad(n::text, 7, '0'), sha256(int4send(n)), 'caller-' || n, '{runs:read}', '{viewer}', 'local',
  now() - interval '1 minute' * n, now() + interval '1 year' FROM generate_series(1, greatest(500, $1::integer / 500)) n

-- name: erasures
INSERT INTO tas.erasure (erasure_id, project, kind, run_id, reason, status, requested_by, requested_at, alone_from, decided_by,
  decided_at, done_at, parts)
SELECT bench.id_of('erasure', b.n, b.at), b.project, 'run', b.run_id, 'asked for by the customer',
  CASE WHEN b.n % ($1::bigint / 5) = 100 THEN 'withdrawn' ELSE 'done' END, 'local', b.at, b.at, 'local', b.at, b.at,
  '{runs,blobs,history,tas}' FROM bench.run b WHERE b.n % 100 = 0

-- name: tools
INSERT INTO tas.tool (project, name, version, digest, spec, chars, status, reason, toolset, owner, worker)
SELECT 'default', 'tools.t' || n, v, md5(n || '/' || v), json_build_object('name', 'tools.t' || n), 30,
  CASE WHEN v = 21 AND n % 50 = 0 THEN 'pending' ELSE 'accepted' END, '', 'toolset-' || n % 20, 'worker', 'worker'
FROM generate_series(1, 500) n, generate_series(1, 21) v

-- name: workers
INSERT INTO tas.worker (project, toolset, worker_id, name, host, version, slots, calls, idle, started_at, heard_at)
SELECT 'default', 'toolset-' || n % 20, md5(n::text), 'w' || n, 'host', '1', 8, 0, true, now() - interval '1 day', now()
FROM generate_series(1, 1000) n

-- name: costs
INSERT INTO history.cost (project, part, day, name, runs, calls, tokens, usd, unpriced)
SELECT 'default', p.part, d::date, p.part || '-' || n, 10, 20, 3000, 1.5, 0
FROM (VALUES ('network', 50), ('caller', 500), ('agent', 200), ('model', 10), ('label', 1000)) AS p (part, many)
CROSS JOIN generate_series(now() - interval '92 days', now(), interval '1 day') d 
CROSS JOIN LATERAL generate_series(1, greatest(1, p.many * least($1::bigint, 100000) / 100000)) n

-- name: policies
INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, applied_at, rules_digest)
SELECT 'default', n, 'sha256:' || n, '', 1, 'file', '', 'local', now() - interval '61 days', 'sha256:' || n
FROM generate_series(1, 500) n

-- name: networks
INSERT INTO runs.snapshot (digest, snapshot) VALUES ('sha256:0', '{}')

-- name: network_versions
INSERT INTO runs.network_version (project, name, version, digest, spec, published_at, published_by)
SELECT 'default', k.name, v, 'sha256:0', '{}', now() - interval '1 hour' * (1000 - v), 'local'
FROM (SELECT 'network-' || n AS name FROM generate_series(0, 49) n UNION ALL VALUES ('support'), ('rare')) k, generate_series(1, 100) v

-- name: histories
-- The history of each fiftieth run, and a thousand steps of the one that is asked about most.
INSERT INTO history.agent_execution_history (id, agent_id, task_id, project_id, kind, network, version, caller, created_at, started_at,
  completed_at, total_steps, status, final_status, total_cost_usd, total_tokens, state_snapshot)
SELECT b.run_id, 'clerk', b.run_id::text, b.project, 'network', b.network, 1, b.caller, b.at, b.at, b.at, 4, 'completed', 'success',
  0.01, 900, '{"user_message": "where is my order?"}' FROM bench.run b WHERE b.n % 50 = 0

-- name: cursors
INSERT INTO history.run_cursor (run_id, project, seq, prior_seq)
SELECT b.run_id, b.project, 12, 11 FROM bench.run b WHERE b.n % 50 = 0

-- name: steps
INSERT INTO history.agent_execution_steps (execution_id, step_number, id, project_id, "timestamp", ended_at, agent_id, input_preview,
  action, result, success, attempt_number, tokens_used, cost_usd, decisions)
SELECT b.run_id, s, b.call_id, b.project, b.at, b.at, 'clerk', 'where is my order?', '{"tool": "orders.refund"}', '{"0": "refunded"}',
  true, 1, 300, 0.001, '{}'
FROM bench.run b CROSS JOIN LATERAL generate_series(1, CASE b.n WHEN $1::bigint / 2 THEN 1000 ELSE 4 END) s WHERE b.n % 50 = 0

-- name: tool_calls
INSERT INTO history.tool_execution (run_id, execution_id, project_id, step_number, call_index, agent_id, tool, args, status, result,
  duration_ms, requested_at, finished_at)
SELECT b.run_id, bench.id_of('call', s, b.at), b.project, s, 0, 'clerk', 'orders.refund', '{"order": 7}', 'succeeded', '"refunded"', 12,
  b.at, b.at
FROM bench.run b CROSS JOIN LATERAL generate_series(1, CASE b.n WHEN $1::bigint / 2 THEN 1000 ELSE 4 END) s WHERE b.n % 50 = 0

-- name: model_calls
INSERT INTO history.llm_call (run_id, request_id, attempt, call, project_id, step_number, agent_id, kind, model, started_at, duration_ms,
  input_tokens, output_tokens, total_tokens, cost_usd, price_source, prompt_digest)
SELECT b.run_id, bench.id_of('request', s, b.at), 1, 1, b.project, s, 'clerk', 'decision', 'gemini:x', b.at, 900, 250, 50, 300, 0.001,
  'built_in', 'sha256:1'
FROM bench.run b CROSS JOIN LATERAL generate_series(1, CASE b.n WHEN $1::bigint / 2 THEN 1000 ELSE 4 END) s WHERE b.n % 50 = 0

-- name: indexes
-- What can be made anew when the rows are there, which is faster.
SELECT format('DROP INDEX %I.%I', n.nspname, i.relname) AS leave, pg_get_indexdef(i.oid) AS make
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname IN ('runs', 'tas') AND t.relkind = 'r' AND NOT t.relispartition
  AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.oid)

-- name: counted
SELECT c.oid::regclass::text AS name, pg_total_relation_size(c.oid) AS bytes, c.reltuples::bigint AS rows
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN ('runs', 'tas', 'history', 'gateway') AND c.reltuples > 0 ORDER BY 2 DESC

-- name: top
-- What is asked about: the run with the most children, a thread, a run whose gate was approved, and the middle of the time.
SELECT parent_run_id FROM runs.run WHERE parent_run_id IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1

-- name: thread
SELECT thread_id FROM runs.run WHERE thread_id IS NOT NULL LIMIT 1

-- name: called
SELECT run_id FROM runs.gate WHERE project = 'default' AND status = 'approved' ORDER BY opened_at LIMIT 1

-- name: middle
SELECT run_id FROM runs.run WHERE project = 'default' AND created_at > now() - interval '365 days' ORDER BY run_id LIMIT 1

-- name: gate
SELECT gate_id FROM runs.gate WHERE project = 'default' AND opened_at > now() - interval '365 days' ORDER BY opened_at LIMIT 1

-- name: call
SELECT execution_id FROM tas.audit_record WHERE run_id = (
  SELECT run_id FROM runs.gate WHERE project = 'default' AND status = 'approved' ORDER BY opened_at LIMIT 1) LIMIT 1

-- name: letter
SELECT dead_letter_id FROM runs.dead_letter WHERE project = 'default' AND at > now() - interval '365 days' ORDER BY dead_letter_id LIMIT 1

-- name: entry
SELECT entry_id FROM tas.audit_record WHERE project = 'default' AND entry_id > (SELECT max(entry_id) / 2 FROM tas.audit_record)
ORDER BY entry_id LIMIT 1

-- name: size
SELECT size FROM tas.audit_seal WHERE size > (SELECT max(size) / 2 FROM tas.audit_seal) ORDER BY size LIMIT 1
