-- name: read_tasks
SELECT k.run_id, t.created FROM unnest($1::uuid[]) AS k (run_id)
CROSS JOIN LATERAL (SELECT v.created FROM tas.run_task v WHERE v.run_id = k.run_id LIMIT 1) t;

-- name: read_outputs
-- What the calls of these runs were asked with and have returned, but for those known already. An ended call never
-- changes. One that runs, or may have run, has written what it was asked with, so it is listed too. `asked_args` are of
-- the model where a person has changed the call; `edited_args` are then what it ran with.
--
-- With it what the logs of these runs say of answers, behind the place that is known of each (none of a run whose place
-- is NULL): one statement, as most runs have none. Such rows have a `seq`.
SELECT t.* FROM unnest($1::uuid[], $4::bigint[]) AS k (run_id, seq)
CROSS JOIN LATERAL (
  (SELECT c.run_id, NULL::bigint AS seq, c.execution_id, c.project, c.tool, c.tool_version, c.step, c.effect_class,
          c.toolset, c.status, c.fact, coalesce(c.asked_args, c.args) AS args,
          CASE WHEN c.asked_args IS NOT NULL THEN c.args END AS edited_args
   FROM tas.tool_call c
   WHERE c.run_id = k.run_id AND c.execution_id <> ALL ($2::uuid[])
     AND c.status IN ('permitted', 'started', 'unknown', 'succeeded', 'failed', 'denied') AND c.erased_at IS NULL
   ORDER BY c.step, c.call_index LIMIT $3)
  UNION ALL
  SELECT k.run_id, a.seq, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, a.event, NULL, NULL
  FROM tas.answers_of_run(k.run_id, k.seq, $3) a) t;

-- name: spec_of
SELECT spec FROM tas.tool WHERE project = $1 AND name = $2 AND version = $3;

-- name: head_of_blob
SELECT size, substring(data FROM 1 FOR $3) AS head FROM runs.blob WHERE project = $1 AND digest = $2;
