-- Dead letters as people see and settle them. A letter whose run is known belongs to that run's project.

-- name: letters
-- Those of the project and those without one, which are the second part of the index dead_letter_project: so many of each, and
-- of these the newest.
SELECT d.dead_letter_id, d.at, d.stream, d.subject, f.owner AS project, d.run_id, d.effect_id,
       d.reason, d.failures, d.status, octet_length(d.body) AS size, d.cut,
       CASE WHEN $5::bigint IS NULL THEN NULL ELSE d.body END AS body,
       d.settled_at, d.settled_by, d.settled_reason
FROM unnest(ARRAY[$1::text, '']) AS k (project)
CROSS JOIN LATERAL (
  SELECT l.dead_letter_id, coalesce(l.project, r.project) AS owner
  FROM runs.dead_letter l LEFT JOIN runs.run r ON l.project IS NULL AND r.run_id = l.run_id
  WHERE coalesce(l.project, '') = k.project AND (l.project IS NOT NULL OR r.project = $1 OR ($2 AND r.project IS NULL))
    AND ($3::text IS NULL OR l.stream = $3) AND ($4::uuid IS NULL OR l.run_id = $4)
    AND l.dead_letter_id >= coalesce($5::bigint, 0) AND l.dead_letter_id <= coalesce($5::bigint, 9223372036854775807)
    AND l.dead_letter_id < coalesce($6::bigint, 9223372036854775807)
  ORDER BY l.dead_letter_id DESC LIMIT $7
) AS f JOIN runs.dead_letter d ON d.dead_letter_id = f.dead_letter_id
ORDER BY d.dead_letter_id DESC LIMIT $7

-- name: letters_of_status
-- Each way in needs its index, as one plan is made for all values. The id is written as the index dead_letter_status has it: by
-- the id alone the planner would look through the letters of all statuses.
SELECT d.dead_letter_id, d.at, d.stream, d.subject, f.owner AS project, d.run_id, d.effect_id,
       d.reason, d.failures, d.status, octet_length(d.body) AS size, d.cut,
       CASE WHEN $5::bigint IS NULL THEN NULL ELSE d.body END AS body,
       d.settled_at, d.settled_by, d.settled_reason
FROM unnest(ARRAY[$1::text, '']) AS k (project)
CROSS JOIN LATERAL (
  SELECT l.dead_letter_id, coalesce(l.project, r.project) AS owner
  FROM runs.dead_letter l LEFT JOIN runs.run r ON l.project IS NULL AND r.run_id = l.run_id
  WHERE coalesce(l.project, '') = k.project AND (l.project IS NOT NULL OR r.project = $1 OR ($2 AND r.project IS NULL))
    AND ($3::text IS NULL OR l.stream = $3) AND ($4::uuid IS NULL OR l.run_id = $4)
    AND l.status = $8 AND -l.dead_letter_id <= -coalesce($5::bigint, 0) AND -l.dead_letter_id >= -coalesce($5::bigint, 9223372036854775807)
    AND -l.dead_letter_id > -coalesce($6::bigint, 9223372036854775807)
  ORDER BY -l.dead_letter_id LIMIT $7
) AS f JOIN runs.dead_letter d ON d.dead_letter_id = f.dead_letter_id
ORDER BY d.dead_letter_id DESC LIMIT $7

-- name: hold_letter
-- The first request holds the letter until it is settled; a request that comes meanwhile gets no row, and does not wait.
SELECT stream, subject, body FROM runs.dead_letter WHERE dead_letter_id = $1 AND status = 'dead' FOR UPDATE SKIP LOCKED

-- name: settle_letter
UPDATE runs.dead_letter SET status = $2, settled_at = now(), settled_by = $3, settled_reason = $4
WHERE dead_letter_id = $1 AND status = 'dead'
