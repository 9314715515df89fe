-- Messages that can't be handled: runs.dead_letter and runs.handling_failure, for every service that reads a work stream.

-- name: add_dead_letters
-- One row for one message, however often it comes: it may come again when the process ends before it is terminated.
-- Whose it is says whoever adds it, since they know who sent it: a run of another project is not kept. Else the run says it.
-- Nothing is kept of a run that was erased. Says for each, in order, whether there was room among the open ones of its
-- like.
WITH new AS (
  SELECT k.place, k.subject, k.reason, k.body, k.failures, k.effect_id, k.delivery, k.cut, r.erased_at,
         CASE WHEN r.project <> k.project THEN NULL ELSE k.run_id END AS run_id, coalesce(k.project, r.project) AS project
  FROM unnest($3::text[], $4::uuid[], $5::text[], $6::bytea[], $7::integer[], $8::text[], $9::uuid[], $10::bigint[],
              $11::boolean[])
    WITH ORDINALITY AS k (subject, run_id, reason, body, failures, project, effect_id, delivery, cut, place)
    LEFT JOIN runs.run r ON r.run_id = k.run_id),
     open AS (
  SELECT w.owner, (SELECT count(*) FROM (SELECT FROM runs.dead_letter d
                                         WHERE d.status = 'dead' AND d.stream = $1::text
                                           AND coalesce(d.project, '') = w.owner
                                         LIMIT $2::integer) kept) AS count
  FROM (SELECT DISTINCT coalesce(n.project, '') AS owner FROM new n) w),
     fit AS (
  SELECT n.*, o.count + row_number() OVER (PARTITION BY o.owner ORDER BY n.place) <= $2::integer AS has_room
  FROM new n JOIN open o ON o.owner = coalesce(n.project, '')),
     kept AS (
  INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, failures, project, effect_id, delivery, cut)
  SELECT $1::text, f.subject, f.run_id, f.reason, f.body, f.failures, f.project, f.effect_id, f.delivery, f.cut
  FROM fit f WHERE f.has_room AND f.erased_at IS NULL ORDER BY f.place
  ON CONFLICT (stream, delivery) DO NOTHING)
SELECT f.has_room FROM fit f ORDER BY f.place

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
