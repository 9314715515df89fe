-- name: now
SELECT clock_timestamp();

-- name: open_erasures
SELECT count(*) FROM tas.erasure WHERE project = $1 AND status IN ('requested', 'confirmed');

-- name: add
INSERT INTO tas.erasure (erasure_id, project, run_id, execution_id, caller, before, reason, requested_by, requested_at,
                         alone_from)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: lock
SELECT * FROM tas.erasure WHERE project = $1 AND erasure_id = $2 FOR UPDATE;

-- name: settle
UPDATE tas.erasure SET status = $2, decided_by = $3, decided_at = $4 WHERE erasure_id = $1;

-- name: find
SELECT * FROM tas.erasure WHERE project = $1 AND erasure_id = $2;

-- name: listed
SELECT * FROM tas.erasure
WHERE project = $1 AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR erasure_id < $3)
ORDER BY erasure_id DESC LIMIT $4;

-- name: unfinished
SELECT erasure_id FROM tas.erasure WHERE status = 'confirmed' ORDER BY erasure_id LIMIT 100;

-- name: erase_payloads
SELECT tas.erase_payloads($1, $2);
