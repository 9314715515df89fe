-- What proposals of grants are made from. All of it only reads.

-- name: completed_runs
-- The newest completed runs of a network that callers submitted, each with the runs below it: at most $6 runs of the
-- project are looked at, $5 are taken, and of each tree $7 runs. `looked` counts the first.
WITH looked AS MATERIALIZED (
  SELECT run_id, network, status, depth, labels, erased_at FROM runs.run
  WHERE project = $1 AND uuid_send(run_id) >= uuid_send($2) ORDER BY uuid_send(run_id) DESC LIMIT $6
), roots AS MATERIALIZED (
  SELECT run_id FROM looked
  WHERE network = $3 AND status = 'completed' AND depth = 0 AND erased_at IS NULL AND ($4::jsonb IS NULL OR labels @> $4::jsonb)
  ORDER BY run_id DESC LIMIT $5
)
SELECT o.run_id AS root, below.run_ids, (SELECT count(*) FROM looked) AS looked
FROM roots o
CROSS JOIN LATERAL (
  SELECT coalesce(array_agg(c.run_id), '{}') AS run_ids FROM (
    SELECT r.run_id FROM runs.run r WHERE r.root_run_id = o.run_id AND r.erased_at IS NULL ORDER BY r.run_id DESC LIMIT $7) c
) below
ORDER BY o.run_id DESC
