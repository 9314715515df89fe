-- Dead letters as people see and settle them. A letter whose run is known belongs to that run's project.

-- name: letters
SELECT d.dead_letter_id, d.at, d.stream, d.subject, coalesce(d.project, r.project) AS project, d.run_id, d.effect_id,
       d.reason, d.failures, d.status, octet_length(d.body) AS size, d.cut,
       CASE WHEN $6::bigint IS NULL THEN NULL ELSE d.body END AS body,
       d.settled_at, d.settled_by, d.settled_reason
FROM runs.dead_letter d LEFT JOIN runs.run r ON r.run_id = d.run_id
WHERE (coalesce(d.project, r.project) = $1 OR ($2 AND coalesce(d.project, r.project) IS NULL))
  AND ($3::text IS NULL OR d.status = $3) AND ($4::text IS NULL OR d.stream = $4) AND ($5::uuid IS NULL OR d.run_id = $5)
  AND ($6::bigint IS NULL OR d.dead_letter_id = $6) AND ($7::bigint IS NULL OR d.dead_letter_id < $7)
ORDER BY d.dead_letter_id DESC LIMIT $8

-- name: hold_letter
-- The first request holds the letter until it is settled; a request that comes meanwhile gets no row, and does not wait.
SELECT stream, subject, body FROM runs.dead_letter WHERE dead_letter_id = $1 AND status = 'dead' FOR UPDATE SKIP LOCKED

-- name: settle_letter
UPDATE runs.dead_letter SET status = $2, settled_at = now(), settled_by = $3, settled_reason = $4
WHERE dead_letter_id = $1 AND status = 'dead'
