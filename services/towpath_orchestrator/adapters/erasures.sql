-- The run log's part of erasing runs; Postgres erases only what the audit has as asked for and confirmed.

-- name: due_erasures
SELECT runs.due_erasures() AS erasure_id

-- name: erase_runs
SELECT runs.erase_runs($1, $2)
