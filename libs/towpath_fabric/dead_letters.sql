-- Messages that can't be handled: runs.dead_letter and runs.handling_failure, for every service that reads a work stream.

-- name: add_dead_letter
-- One row for one message, however often it comes: it may come again when the process ends before it is terminated.
INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, failures, project, effect_id, delivery)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (stream, delivery) DO NOTHING

-- name: count_failure
INSERT INTO runs.handling_failure (stream, sequence, failures, last) VALUES ($1, $2, 1, now())
ON CONFLICT (stream, sequence) DO UPDATE SET failures = runs.handling_failure.failures + 1, last = now()
RETURNING failures
