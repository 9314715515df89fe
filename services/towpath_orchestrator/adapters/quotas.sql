-- name: projects
-- Which projects have a quota, with the version that this is.
SELECT v.quotas AS version, q.project FROM runs.budget_version v LEFT JOIN runs.project_quota q ON true

-- name: lock
-- Whoever accepts tasks of these projects takes turns, from here to its commit. It waits $2 ms for its turn.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $2, true))
SELECT q.project FROM patience, runs.project_quota q WHERE q.project = ANY ($1::text[]) ORDER BY q.project FOR UPDATE OF q

-- name: lock_free
-- Of these projects those whose turn it is at once.
SELECT project FROM runs.project_quota WHERE project = ANY ($1::text[]) ORDER BY project FOR UPDATE SKIP LOCKED

-- name: uses
-- A statement of its own behind the lock: it sees what others have committed meanwhile. From here on locks are waited for
-- as ever. Of runs that have not ended no more are counted than the limit, from an index, and none without one.
SELECT q.project, q.unfinished_runs, q.runs_per_day, q.tool_calls_per_minute, q.stored_bytes, q.set_by, q.set_at, q.reason, set_config('lock_timeout', '0', true),
  CASE WHEN q.day >= ($2::timestamptz AT TIME ZONE 'UTC')::date THEN q.runs ELSE 0 END AS runs_per_day_used,
  (SELECT count(*) FROM (
     SELECT 1 FROM runs.run r WHERE r.project = q.project AND r.status IN ('queued', 'running', 'waiting', 'cancelling')
     LIMIT coalesce(q.unfinished_runs, 0)) AS u) AS unfinished_runs_used,
  coalesce((SELECT s.event_bytes + s.blob_bytes FROM runs.project_storage s WHERE s.project = q.project), 0) AS stored_bytes_used
FROM runs.project_quota q WHERE q.project = ANY ($1::text[])

-- name: known_keys
-- Tasks under these keys begin no run. Behind the lock too, so that a key which another replica has stored meanwhile is known.
SELECT i.project, i.caller, i.key FROM runs.idempotency i
JOIN unnest($1::text[], $2::text[], $3::text[]) AS k (project, caller, key)
  ON i.project = k.project AND i.caller = k.caller AND i.key = k.key

-- name: count_runs
-- Whoever read the time before midnight and waited for its turn until after it counts on the new day.
UPDATE runs.project_quota q SET day = greatest(q.day, d.today),
  runs = CASE WHEN q.day >= d.today THEN q.runs ELSE 0 END + w.runs
FROM unnest($1::text[], $2::bigint[]) AS w (project, runs), (SELECT ($3::timestamptz AT TIME ZONE 'UTC')::date AS today) AS d
WHERE q.project = w.project

-- name: calls_of_minute
-- Counted by the tool-access service, in minutes of Postgres's clock.
SELECT r.used FROM tas.rate_count r
WHERE r.project = $1 AND r.rule = 'quota of calls' AND r.window_no = floor(extract(epoch FROM $2::timestamptz) / 60)::bigint

-- name: add_stored
-- In one order, so that replicas can't lock each other out.
INSERT INTO runs.project_storage AS s (project, event_bytes)
SELECT w.project, w.bytes FROM unnest($1::text[], $2::bigint[]) AS w (project, bytes) ORDER BY w.project
ON CONFLICT (project) DO UPDATE SET event_bytes = s.event_bytes + excluded.event_bytes

-- name: claim_measures
-- The projects with a limit whose blobs are to be measured now: by whoever asks first in $1 seconds.
INSERT INTO runs.project_storage AS s (project, measured_at)
SELECT q.project, now() FROM runs.project_quota q WHERE q.stored_bytes IS NOT NULL ORDER BY q.project
ON CONFLICT (project) DO UPDATE SET measured_at = now()
WHERE s.measured_at IS NULL OR s.measured_at < now() - make_interval(secs => $1)
RETURNING s.project

-- name: measure_blobs
-- Each row says its size, and an index has the sizes of a project.
INSERT INTO runs.project_storage AS s (project, blob_bytes, measured_at)
SELECT w.project, coalesce((SELECT sum(b.size) FROM runs.blob b WHERE b.project = w.project), 0), now()
FROM unnest($1::text[]) AS w (project) ORDER BY w.project
ON CONFLICT (project) DO UPDATE SET blob_bytes = excluded.blob_bytes, measured_at = excluded.measured_at

-- name: stored_of_limited
SELECT q.project, coalesce(s.event_bytes + s.blob_bytes, 0) AS bytes
FROM runs.project_quota q LEFT JOIN runs.project_storage s ON s.project = q.project WHERE q.stored_bytes IS NOT NULL

-- name: calls_a_minute
SELECT tool_calls_per_minute FROM runs.project_quota WHERE project = $1 FOR UPDATE

-- name: postponed_runs
-- Runs that go on, of which a call was postponed: most of them wait for it, and the others have nothing to ask for.
SELECT r.run_id FROM runs.run r
WHERE r.project = $1 AND r.status IN ('running', 'waiting') AND EXISTS (
  SELECT FROM runs.run_event e WHERE e.run_id = r.run_id AND e.type = 'tool_call_postponed')
ORDER BY r.run_id

-- name: raise_version
UPDATE runs.budget_version SET quotas = quotas + 1

-- name: set_quota
-- What began today stays counted.
INSERT INTO runs.project_quota (project, unfinished_runs, runs_per_day, tool_calls_per_minute, stored_bytes, set_by, reason, set_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now())
ON CONFLICT (project) DO UPDATE SET unfinished_runs = excluded.unfinished_runs, runs_per_day = excluded.runs_per_day,
  tool_calls_per_minute = excluded.tool_calls_per_minute, stored_bytes = excluded.stored_bytes, set_by = excluded.set_by, reason = excluded.reason, set_at = now()

-- name: lift_quota
DELETE FROM runs.project_quota WHERE project = $1
