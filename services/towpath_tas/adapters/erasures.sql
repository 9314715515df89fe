-- name: now
SELECT clock_timestamp();

-- name: open_erasures
SELECT count(*) FROM tas.erasure
WHERE project = $1 AND (status = 'confirmed' OR (status = 'requested' AND alone_from > clock_timestamp() - $2::interval));

-- name: add
INSERT INTO tas.erasure (erasure_id, project, run_id, execution_id, caller, before, reason, requested_by, requested_at,
                         alone_from, kind, run_ids)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: lock
SELECT erasure_id, project, kind, run_id, execution_id, caller, before, reason, status, requested_by, requested_at, alone_from,
       decided_by, decided_at, erased, done_at, cardinality(run_ids) AS runs, run_ids, parts
FROM tas.erasure WHERE project = $1 AND erasure_id = $2 FOR UPDATE;

-- name: settle
UPDATE tas.erasure SET status = $2, decided_by = $3, decided_at = $4 WHERE erasure_id = $1;

-- name: find
SELECT erasure_id, project, kind, run_id, execution_id, caller, before, reason, status, requested_by, requested_at, alone_from,
       decided_by, decided_at, erased, done_at, cardinality(run_ids) AS runs, run_ids, parts
FROM tas.erasure WHERE project = $1 AND erasure_id = $2;

-- name: listed
-- The id is written as the index erasure_project has it, or erasures of all projects would be looked through.
SELECT erasure_id, project, kind, run_id, execution_id, caller, before, reason, status, requested_by, requested_at, alone_from,
       decided_by, decided_at, erased, done_at, cardinality(run_ids) AS runs, run_ids[1:5] AS run_ids,
       parts
FROM tas.erasure
WHERE project = $1
  AND uuid_send(erasure_id) < uuid_send(coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY uuid_send(erasure_id) DESC LIMIT $3;

-- name: listed_of_status
-- The id is written as the index erasure_status has it, or erasures of all statuses would be looked through.
SELECT erasure_id, project, kind, run_id, execution_id, caller, before, reason, status, requested_by, requested_at, alone_from,
       decided_by, decided_at, erased, done_at, cardinality(run_ids) AS runs, run_ids[1:5] AS run_ids,
       parts
FROM tas.erasure
WHERE project = $1 AND status = $4
  AND uuid_send(erasure_id) < uuid_send(coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY uuid_send(erasure_id) DESC LIMIT $3;

-- name: unfinished
-- Of a run, what is left to do here: the owners of the run log come first, and may not be done yet.
SELECT erasure_id FROM tas.erasure
WHERE status = 'confirmed' AND (kind = 'payloads' OR ('runs' = ANY (parts) AND 'tas' <> ALL (parts)))
  AND erasure_id <> ALL ($1::uuid[])
ORDER BY erasure_id LIMIT 100;

-- name: erase_payloads
SELECT tas.erase_payloads($1, $2);

-- name: tree
SELECT run_id, project, status, erased, above FROM runs.tree_to_erase($1, $2);
