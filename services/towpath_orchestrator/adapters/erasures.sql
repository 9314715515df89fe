-- The run log's part of erasing runs; Postgres erases only what the audit has as asked for and confirmed.

-- name: due_erasures
SELECT erasure_id, run_ids FROM runs.due_erasures($1)

-- name: erase_runs
SELECT runs.erase_runs($1, $2)
