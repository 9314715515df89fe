-- Stored runs as material: replays, exports, forks. All of it only reads.

-- name: record
-- A run whose record is read; $2 is NULL for readers of every project.
SELECT run_id, seq, network, version, status, reason, snapshot_digest FROM runs.run
WHERE run_id = $1 AND ($2::text IS NULL OR project = $2)

-- name: record_events
-- As far as the log went when the record was opened, so that facts and events are those of one moment.
SELECT seq, at, event FROM runs.run_event WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4

-- name: record_facts
SELECT first_seq, at, fact, engine_version FROM runs.run_fact
WHERE run_id = $1 AND first_seq > $2 AND first_seq <= $3 ORDER BY first_seq LIMIT $4

-- name: runs_to_replay
SELECT run_id FROM runs.run
WHERE ($1::text IS NULL OR project = $1) AND ($2::text IS NULL OR network = $2)
  AND ($3::timestamptz IS NULL OR created_at >= $3) AND ($4::uuid IS NULL OR run_id > $4)
ORDER BY run_id LIMIT $5

-- name: record_snapshot
SELECT snapshot FROM runs.snapshot WHERE digest = $1

-- name: forked_from
-- JSON null is an SQL NULL here.
SELECT event->'forked_from'#>>'{}' FROM runs.run_event WHERE run_id = $1 AND seq = 1
