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
-- Calls that have begun, or may run without asking; page by page, since a stop must not hold the table. They are looked
-- for in the runs that live (indexes run_live, run_quarantined), each run in its own place of the ledger: a run that has ended has a fence,
-- and whoever raised it has asked what ran to stop.
WITH live AS MATERIALIZED (
  SELECT r.run_id FROM runs.run r
  WHERE r.status IN ('running', 'waiting', 'cancelling') AND r.project = $1 AND r.run_id >= $2
  UNION ALL
  SELECT r.run_id FROM runs.run r WHERE r.status = 'quarantined' AND r.project = $1 AND r.run_id >= $2)
SELECT t.* FROM live CROSS JOIN LATERAL (
  SELECT c.* FROM tas.tool_call c WHERE c.run_id = live.run_id AND c.status IN ('permitted', 'started') OFFSET 0) t
WHERE t.project = $1 AND (t.run_id, t.execution_id) > ($2, $3)
ORDER BY t.run_id, t.execution_id LIMIT $4
