-- Messages that can't be handled: runs.dead_letter and runs.handling_failure, for every service that reads a work stream.

-- name: add_dead_letter
-- One row for one message, however often it comes: it may come again when the process ends before it is terminated.
-- The run says whose it is; without one, whoever adds it. Nothing is kept of a run that was erased. Says whether there was
-- room among the open ones of its like.
WITH whose AS (SELECT coalesce((SELECT r.project FROM runs.run r WHERE r.run_id = $3::uuid), $7::text) AS project),
     room AS (
  SELECT count(*) < $11::integer AS there_is
  FROM (SELECT FROM runs.dead_letter d
        WHERE d.status = 'dead' AND d.stream = $1::text
          AND coalesce(d.project, '') = coalesce((SELECT w.project FROM whose w), '')
        LIMIT $11::integer) open),
     kept AS (
  INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, failures, project, effect_id, delivery, cut)
  SELECT $1::text, $2::text, $3::uuid, $4::text, $5::bytea, $6::integer, w.project, $8::uuid, $9::bigint, $10::boolean
  FROM whose w, room WHERE room.there_is
    AND NOT EXISTS (SELECT FROM runs.run r WHERE r.run_id = $3::uuid AND r.erased_at IS NOT NULL)
  ON CONFLICT (stream, delivery) DO NOTHING)
SELECT room.there_is FROM room

-- name: forget_letters
-- What is settled stays a month, what nobody settles a quarter of a year.
DELETE FROM runs.dead_letter
WHERE (status <> 'dead' AND settled_at < now() - interval '30 days') OR at < now() - interval '90 days'

-- name: count_failure
INSERT INTO runs.handling_failure (stream, sequence, failures, last) VALUES ($1, $2, 1, now())
ON CONFLICT (stream, sequence) DO UPDATE SET failures = runs.handling_failure.failures + 1, last = now()
RETURNING failures

-- name: begin_handling
-- Marks a message that is about to be handled alone; says how many deaths are known. The mark of another process that is
-- older than $3 seconds was left behind: a death. A younger one is at work in a replica, which has another copy.
INSERT INTO runs.handling_failure AS f (stream, sequence, failures, begun_at, begun_by, last)
VALUES ($1, $2, 0, now(), $4, now())
ON CONFLICT (stream, sequence) DO UPDATE SET
  deaths = f.deaths + CASE WHEN f.begun_by <> $4 AND f.begun_at < now() - make_interval(secs => $3) THEN 1 ELSE 0 END,
  begun_at = now(), begun_by = $4, last = now()
RETURNING deaths

-- name: end_handling
-- Removes the mark of $4, and no other's; after a handling that the process survived no death is known any more.
UPDATE runs.handling_failure SET
  deaths = CASE WHEN $3 THEN 0 ELSE deaths END,
  begun_at = CASE WHEN begun_by = $4 THEN NULL ELSE begun_at END,
  begun_by = CASE WHEN begun_by = $4 THEN NULL ELSE begun_by END
WHERE stream = $1 AND sequence = $2
