-- Stored runs as material: replays, exports, forks. All of it only reads.

-- name: record
-- A run whose record is read; $2 is NULL for readers of every project.
SELECT run_id, seq, network, version, status, reason, snapshot_digest, erased_at, pruned FROM runs.run
WHERE run_id = $1 AND ($2::text IS NULL OR project = $2)

-- name: record_events
-- As far as the log went when the record was opened, so that facts and events are those of one moment.
SELECT seq, at, event FROM runs.run_event WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4

-- name: record_facts
SELECT first_seq, at, fact, engine_version FROM runs.run_fact
WHERE run_id = $1 AND first_seq > $2 AND first_seq <= $3 ORDER BY first_seq LIMIT $4

-- name: runs_to_replay
-- Of the next $7 runs behind $4, of all projects, those that are wanted; in the end the last of all, if there are so many. A
-- filter that hardly any run passes reads no whole table. $6 is the id before which no run can be of the time that is wanted.
WITH looked_at AS MATERIALIZED (
  SELECT run_id, network, created_at, erased_at FROM runs.run
  WHERE $1::text IS NULL AND run_id > greatest($4::uuid, $6::uuid) ORDER BY run_id LIMIT $7
), wanted AS (
  SELECT run_id FROM looked_at
  WHERE erased_at IS NULL AND ($2::text IS NULL OR network = $2) AND ($3::timestamptz IS NULL OR created_at >= $3)
  ORDER BY run_id LIMIT $5
)
SELECT run_id, true AS wanted FROM wanted
UNION ALL (SELECT run_id, false FROM looked_at ORDER BY run_id OFFSET $7 - 1) ORDER BY wanted DESC, run_id

-- name: runs_of_project_to_replay
WITH looked_at AS MATERIALIZED (
  SELECT run_id, network, created_at, erased_at FROM runs.run
  WHERE project = $1 AND uuid_send(run_id) > uuid_send(greatest($4::uuid, $6::uuid)) ORDER BY uuid_send(run_id) LIMIT $7
), wanted AS (
  SELECT run_id FROM looked_at
  WHERE erased_at IS NULL AND ($2::text IS NULL OR network = $2) AND ($3::timestamptz IS NULL OR created_at >= $3)
  ORDER BY run_id LIMIT $5
)
SELECT run_id, true AS wanted FROM wanted
UNION ALL (SELECT run_id, false FROM looked_at ORDER BY run_id OFFSET $7 - 1) ORDER BY wanted DESC, run_id

-- name: record_snapshot
SELECT snapshot FROM runs.snapshot WHERE digest = $1

-- name: whole_run
-- With what only the first event tells: what the run was forked from. JSON null is an SQL NULL here.
-- Postgres takes nothing out of JSON in which a string holds NUL, so that is replaced before anything is taken out.
SELECT run.*, (
  SELECT replace(event::text, '\u0000', '\ufffd')::json->'forked_from'#>>'{}'
  FROM runs.run_event WHERE run_event.run_id = run.run_id AND seq = 1
) AS forked_from, (
  SELECT later.run_id FROM runs.run AS later WHERE later.continues = run.run_id AND later.erased_at IS NULL
) AS next_run_id
FROM runs.run WHERE run_id = $1 AND project = $2

-- name: earlier_run
-- What whoever continues a run needs of it, and whether its log says anything of files.
SELECT r.run_id, r.caller, r.status, r.reason, r.outcome, r.depth, r.thread_id, r.erased_at, r.pruned, (
  SELECT e.event FROM runs.run_event e WHERE e.run_id = r.run_id AND e.seq = 1) AS created, EXISTS (
  SELECT FROM runs.run_event e WHERE e.run_id = r.run_id AND e.type IN ('workspace_changed', 'run_forked')) AS has_files
FROM runs.run r WHERE r.run_id = $1 AND r.project = $2

-- name: later_run
SELECT run_id FROM runs.run WHERE continues = $1 AND erased_at IS NULL

-- name: run_effects
-- Of the events about outcomes of calls only what the list of effects is made of: no arguments, no results.
SELECT seq, CASE type
  WHEN 'instruction_issued' THEN json_build_object('type', type, 'step', event->'step', 'calls', (
    SELECT json_agg(json_build_object(
      'execution_id', call->'execution_id', 'call_index', call->'call_index', 'tool', call->'tool'))
    FROM json_array_elements(event->'instruction'->'calls') AS call)) -- other instructions have none: NULL
  WHEN 'tool_call_finished' THEN json_build_object('type', type, 'execution_id', event->'execution_id',
    'status', event->'status', 'code', event->'failure'->'code', 'uncertain', event->'failure'->'uncertain',
    'began', event->'failure'->'began', 'probe', event->'probe', 'settled_by', event->'settled_by', 'worker', event->'worker')
  WHEN 'fence_stored' THEN json_build_object('type', type, 'voided', event->'voided')
  ELSE json_build_object('type', type, 'execution_id', event->'execution_id')
END AS event
FROM (
  SELECT seq, type, replace(event::text, '\u0000', '\ufffd')::json AS event
  FROM runs.run_event WHERE run_id = $1 AND seq > $2 AND type = ANY ($3::text[]) ORDER BY seq LIMIT $4
) AS found ORDER BY seq

-- name: paused_gates
-- Open gates of one pause: of what is open in a project there are few, and an index has them. As above, NUL is replaced
-- before anything is taken out: a gate tells of arguments, which may hold any text.
SELECT gate_id, run_id FROM runs.gate
WHERE project = $1 AND status = 'pending' AND gate_type = 'paused'
  AND replace(detail::text, '\u0000', '\ufffd')::json->'switch'->>'switch_id' = $2 AND gate_id > $3
ORDER BY gate_id LIMIT $4

-- name: waits_of_run
-- Why a run waits: at most $2 reasons, its own first, then those of the runs below it. Open gates, the oldest first, then
-- models whose provider has asked for time, and until when: the last event of a run about a decision says so. Tool calls
-- that a quota has postponed are told by the last such event of their step that no outcome or other request of its call
-- follows: one of them, the others wait as well.
WITH RECURSIVE tree AS (
  SELECT r.run_id, r.agent_key, 0 AS below FROM runs.run r WHERE r.run_id = $1
  UNION ALL
  SELECT c.run_id, c.agent_key, t.below + 1 FROM runs.run c JOIN tree t ON c.parent_run_id = t.run_id
  WHERE c.status IN ('queued', 'running', 'waiting', 'cancelling')
)
SELECT run_id, agent_key, gate_type, reason FROM (
  SELECT g.run_id, t.agent_key, t.below, g.gate_type, g.reason, g.opened_at, g.gate_id
  FROM tree t JOIN runs.gate g ON g.run_id = t.run_id WHERE g.status = 'pending'
  UNION ALL
  SELECT t.run_id, t.agent_key, t.below, 'model', format('%s is asked again at %s: %s',
    coalesce(last.event->>'next_model', last.event->>'model'), last.event->>'until', last.event->>'message'), NULL, NULL
  FROM tree t CROSS JOIN LATERAL (
    SELECT e.type, replace(e.event::text, '\u0000', '\ufffd')::json AS event FROM runs.run_event e
    WHERE e.run_id = t.run_id
      AND e.type IN ('decision_postponed', 'decision_requested', 'decision_received', 'decision_missed')
    ORDER BY e.seq DESC LIMIT 1) AS last
  WHERE last.type = 'decision_postponed' AND (last.event->>'until')::timestamptz > now()
  UNION ALL
  SELECT t.run_id, t.agent_key, t.below, 'quota', format('%s is asked for again at %s: %s',
    last.event->>'tool', last.event->>'until', last.event->>'message'), NULL, NULL
  FROM tree t CROSS JOIN LATERAL (
    SELECT p.event FROM (
      SELECT e.seq, replace(e.event::text, '\u0000', '\ufffd')::json AS event FROM runs.run_event e
      WHERE e.run_id = t.run_id AND e.type = 'tool_call_postponed' AND e.seq > coalesce((
        SELECT max(s.seq) FROM runs.run_event s
        WHERE s.run_id = t.run_id AND s.type IN ('instruction_issued', 'decision_requested')), 0)) AS p
    WHERE NOT EXISTS (
      SELECT FROM runs.run_event l
      WHERE l.run_id = t.run_id AND l.seq > p.seq AND l.type IN ('effect_resent', 'tool_call_finished', 'tool_call_denied')
        AND p.event->>'execution_id' = (
          SELECT coalesce(j.event->>'execution_id', j.event->>'effect_id')
          FROM (SELECT replace(l.event::text, '\u0000', '\ufffd')::json AS event) AS j))
    ORDER BY p.seq DESC LIMIT 1) AS last
  WHERE (last.event->>'until')::timestamptz > now()) AS waits
ORDER BY below > 0, opened_at NULLS LAST, gate_id, run_id, gate_type LIMIT $2
