-- name: read_tasks
SELECT k.run_id, t.created FROM unnest($1::uuid[]) AS k (run_id)
CROSS JOIN LATERAL (SELECT v.created FROM tas.run_task v WHERE v.run_id = k.run_id LIMIT 1) t;

-- name: read_outputs
-- What the calls of these runs returned, but for those known already. An ended call never changes.
SELECT t.run_id, t.execution_id, t.project, t.tool, t.tool_version, t.step, t.fact FROM unnest($1::uuid[]) AS k (run_id)
CROSS JOIN LATERAL (
  SELECT c.run_id, c.execution_id, c.project, c.tool, c.tool_version, c.step, c.fact FROM tas.tool_call c
  WHERE c.run_id = k.run_id AND c.status IN ('succeeded', 'failed', 'denied') AND c.execution_id <> ALL ($2::uuid[])
  ORDER BY c.step, c.call_index LIMIT $3) t;

-- name: spec_of
SELECT spec FROM tas.tool WHERE project = $1 AND name = $2 AND version = $3;

-- name: head_of_blob
SELECT size, substring(data FROM 1 FOR $3) AS head FROM runs.blob WHERE project = $1 AND digest = $2;
