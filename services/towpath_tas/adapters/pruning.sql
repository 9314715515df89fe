-- Retention of runs: which there are, and the row by which their owners prune them.

-- name: now
SELECT clock_timestamp();

-- name: turn
-- One replica chooses for a project at a time: no run is chosen twice.
SELECT pg_try_advisory_xact_lock(7026118, hashtext($1));

-- name: unfinished
SELECT count(*) FROM tas.erasure WHERE project = $1 AND status = 'confirmed' AND kind = 'prune';

-- name: standing_still
-- Prunings that were chosen so long ago and are not carried out.
SELECT erasure_id, project, requested_at, parts FROM tas.erasure
WHERE status = 'confirmed' AND kind = 'prune' AND requested_at < clock_timestamp() - $1::interval
ORDER BY project, erasure_id LIMIT 100;

-- name: oldest_families
SELECT family, run_id, project, network, top, status, ended_at, erased, held, settled_at
FROM runs.oldest_families($1, $2, $3, $4);

-- name: stored_bytes
SELECT runs.stored_bytes_of($1);

-- name: projects
-- The projects that have runs, one look into the index for each.
WITH RECURSIVE found AS (
  (SELECT r.project FROM runs.run r ORDER BY r.project LIMIT 1)
  UNION ALL
  SELECT (SELECT r.project FROM runs.run r WHERE r.project > f.project ORDER BY r.project LIMIT 1)
  FROM found f WHERE f.project IS NOT NULL
)
SELECT project FROM found WHERE project IS NOT NULL;

-- name: add
INSERT INTO tas.erasure (erasure_id, project, kind, before, reason, status, requested_by, requested_at, alone_from,
                         decided_by, decided_at, run_ids)
VALUES ($1, $2, 'prune', $3, $4, 'confirmed', $5, $6, $6, $5, $6, $7);
