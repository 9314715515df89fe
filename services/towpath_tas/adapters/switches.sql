-- What is paused, and what of it runs.

-- name: open_switches
SELECT switch_id, kind, name, reason, paused_by, paused_at FROM tas.switch
WHERE project = $1 ORDER BY paused_at, switch_id

-- name: pause
INSERT INTO tas.switch (project, kind, name, switch_id, reason, paused_by) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (project, kind, name) DO NOTHING
RETURNING switch_id, kind, name, reason, paused_by, paused_at

-- name: find_switch
SELECT switch_id, kind, name, reason, paused_by, paused_at FROM tas.switch
WHERE project = $1 AND kind = $2 AND name = $3

-- name: resume
DELETE FROM tas.switch WHERE project = $1 AND kind = $2 AND name = $3
RETURNING switch_id, kind, name, reason, paused_by, paused_at

-- name: snapshots
SELECT digest, snapshot FROM runs.snapshot WHERE digest = ANY ($1::text[])

-- name: running_calls
-- Calls that have begun, or may run without asking; page by page, since a stop must not hold the table.
SELECT t.* FROM tas.tool_call t
WHERE t.project = $1 AND t.status IN ('permitted', 'started') AND (t.run_id, t.execution_id) > ($2, $3)
ORDER BY t.run_id, t.execution_id LIMIT $4
