-- Dead letters as people see and settle them. A letter whose run is known belongs to that run's project.

-- name: letters
-- Those of the project and those without one, each as the index dead_letter_project has them: so many of both, and of these the
-- newest.
SELECT f.* FROM unnest(ARRAY[$1::text, '']) AS k (project)
CROSS JOIN LATERAL (
  SELECT l.dead_letter_id, l.at, l.stream, l.subject, coalesce(l.project, r.project) AS project, l.run_id, l.effect_id,
         l.reason, l.failures, l.status, octet_length(l.body) AS size, l.cut,
         CASE WHEN $5::bigint IS NULL THEN NULL ELSE l.body END AS body,
         l.settled_at, l.settled_by, l.settled_reason
  FROM runs.dead_letter l LEFT JOIN runs.run r ON l.project IS NULL AND r.run_id = l.run_id
  WHERE coalesce(l.project, '') = k.project AND (l.project IS NOT NULL OR r.project = $1 OR ($2 AND r.project IS NULL))
    AND ($3::text IS NULL OR l.stream = $3) AND ($4::uuid IS NULL OR l.run_id = $4)
    AND l.dead_letter_id >= coalesce($5::bigint, 0) AND l.dead_letter_id <= coalesce($5::bigint, 9223372036854775807)
    AND l.dead_letter_id < coalesce($6::bigint, 9223372036854775807)
  ORDER BY l.dead_letter_id DESC LIMIT $7) AS f
ORDER BY f.dead_letter_id DESC LIMIT $7

-- name: letters_of_status
-- One plan is made for all values: each way in needs its index. The id is written as the index dead_letter_status has it: by the
-- id alone the planner would look through the letters of all statuses.
SELECT f.* FROM unnest(ARRAY[$1::text, '']) AS k (project)
CROSS JOIN LATERAL (
  SELECT l.dead_letter_id, l.at, l.stream, l.subject, coalesce(l.project, r.project) AS project, l.run_id, l.effect_id,
         l.reason, l.failures, l.status, octet_length(l.body) AS size, l.cut,
         CASE WHEN $5::bigint IS NULL THEN NULL ELSE l.body END AS body,
         l.settled_at, l.settled_by, l.settled_reason
  FROM runs.dead_letter l LEFT JOIN runs.run r ON l.project IS NULL AND r.run_id = l.run_id
  WHERE coalesce(l.project, '') = k.project AND (l.project IS NOT NULL OR r.project = $1 OR ($2 AND r.project IS NULL))
    AND ($3::text IS NULL OR l.stream = $3) AND ($4::uuid IS NULL OR l.run_id = $4)
    AND l.status = $8
    AND -l.dead_letter_id <= -coalesce($5::bigint, 0) AND -l.dead_letter_id >= -coalesce($5::bigint, 9223372036854775807)
    AND -l.dead_letter_id > -coalesce($6::bigint, 9223372036854775807)
  ORDER BY -l.dead_letter_id LIMIT $7) AS f
ORDER BY f.dead_letter_id DESC LIMIT $7

-- name: hold_letter
-- The first request holds the letter until it is settled; a request that comes meanwhile gets no row, and does not wait.
SELECT stream, subject, body FROM runs.dead_letter WHERE dead_letter_id = $1 AND status = 'dead' FOR UPDATE SKIP LOCKED

-- name: settle_letter
UPDATE runs.dead_letter SET status = $2, settled_at = now(), settled_by = $3, settled_reason = $4
WHERE dead_letter_id = $1 AND status = 'dead'
