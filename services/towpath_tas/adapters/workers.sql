-- Worker processes: a row each for every toolset that they serve, kept for a while after their last word.

-- name: leave
DELETE FROM tas.worker WHERE project = $1 AND toolset = $2 AND worker_id = $3

-- name: beat
UPDATE tas.worker SET name = $4, host = $5, version = $6, slots = $7, calls = $8, idle = $9, heard_at = now(),
  drained_at = CASE WHEN $10 THEN coalesce(drained_at, now()) ELSE drained_at END
WHERE project = $1 AND toolset = $2 AND worker_id = $3
RETURNING drained_at IS NOT NULL AS drain

-- A process that was not heard of yet, or is forgotten already. Those of the same toolset that nobody has heard of for
-- $11 seconds make room, and where $12 are there the one that is gone longest, after $13; else it is not noted. One that
-- is drained makes room last: it may only be out of reach, and would come back to work.
-- name: begin
WITH forgotten AS (
  DELETE FROM tas.worker w USING (
    SELECT worker_id, row_number() OVER (ORDER BY drained_at IS NULL, heard_at DESC) AS place
    FROM tas.worker WHERE project = $1 AND toolset = $2) AS ranked
  WHERE w.project = $1 AND w.toolset = $2 AND w.worker_id = ranked.worker_id
    AND (w.heard_at < now() - make_interval(secs => $11)
      OR (ranked.place >= $12 AND w.heard_at < now() - make_interval(secs => $13)))
  RETURNING w.worker_id)
INSERT INTO tas.worker (
  project, toolset, worker_id, name, host, version, slots, calls, idle, started_at, heard_at, drained_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, now() - make_interval(secs => $10), now(), CASE WHEN $14 THEN now() END
WHERE (SELECT count(*) FROM tas.worker WHERE project = $1 AND toolset = $2) - (SELECT count(*) FROM forgotten) < $12
ON CONFLICT (project, toolset, worker_id) DO NOTHING

-- A run that is not there belongs to somebody else, or is erased for good: what was kept for it may go.
-- name: ended_runs
SELECT asked.run_id FROM unnest($2::uuid[]) AS asked (run_id) WHERE NOT EXISTS (
  SELECT FROM runs.run r WHERE r.run_id = asked.run_id AND r.project = $1 AND r.status <> ALL ($3::text[]))

-- Toolsets take turns where not all fits: who fills his own leaves room for others. Rows of a process stand together.
-- name: list_workers
WITH heard AS (
  SELECT *, row_number() OVER (PARTITION BY toolset ORDER BY started_at, worker_id) AS place, count(*) OVER () AS found
  FROM tas.worker WHERE project = $1 AND heard_at >= now() - make_interval(secs => $3)),
shown AS (SELECT * FROM heard ORDER BY place, toolset LIMIT $4)
SELECT worker_id, toolset, name, host, version, slots, calls, idle, started_at, heard_at, drained_at, drained_by, reason,
  heard_at < now() - make_interval(secs => $2) AS gone, found
FROM shown ORDER BY min(started_at) OVER (PARTITION BY worker_id), worker_id, toolset

-- name: find_worker
SELECT worker_id, toolset, name, host, version, slots, calls, idle, started_at, heard_at, drained_at, drained_by, reason,
  heard_at < now() - make_interval(secs => $3) AS gone
FROM tas.worker WHERE project = $1 AND worker_id = $2 ORDER BY toolset FOR UPDATE

-- name: drain
UPDATE tas.worker SET drained_at = now(), drained_by = $3, reason = $4
WHERE project = $1 AND worker_id = $2 AND drained_at IS NULL

-- Toolsets of which a run has had calls for $3 seconds that no worker has begun, as far as is known: of pure ones the beginning is not stored.
-- name: toolsets_not_begun
SELECT toolset FROM tas.tool_call
WHERE run_id = $1 AND project = $2 AND status = 'permitted' AND created_at < now() - make_interval(secs => $3)
GROUP BY toolset
