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
-- Marks a message that is about to be handled alone; says how many marks processes have left behind that did not end it.
INSERT INTO runs.handling_failure (stream, sequence, failures, unfinished, last) VALUES ($1, $2, 0, 1, now())
ON CONFLICT (stream, sequence) DO UPDATE SET unfinished = runs.handling_failure.unfinished + 1, last = now()
RETURNING unfinished - 1

-- name: end_handling
UPDATE runs.handling_failure SET unfinished = $3 WHERE stream = $1 AND sequence = $2
