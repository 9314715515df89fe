-- name: any_unnoticed
-- Most of the time there is nothing new, and then one round trip is enough.
SELECT EXISTS (SELECT FROM runs.gate WHERE noticed = '' OR (noticed = 'pending' AND status <> 'pending'))

-- name: unnoticed
-- Gates of which there is something new. What somebody else changes just now is left for the next look, so that
-- neither waits for the other.
SELECT gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at, expires_at, closed_at, closed_by,
       verdict, noticed,
       (SELECT coalesce(r.trace_id, r.root_run_id) FROM runs.run r WHERE r.run_id = g.run_id) AS trace
FROM runs.gate g WHERE noticed = '' OR (noticed = 'pending' AND status <> 'pending')
ORDER BY opened_at LIMIT $1 FOR UPDATE SKIP LOCKED

-- name: mark_noticed
UPDATE runs.gate g SET noticed = k.status
FROM unnest($1::uuid[], $2::text[]) AS k (gate_id, status) WHERE g.gate_id = k.gate_id

-- name: backlog
SELECT webhook, count(*) AS waiting FROM runs.notice WHERE status = 'pending' GROUP BY webhook

-- name: add_notices
INSERT INTO runs.notice (notice_id, webhook, gate_id, project, kind, body, status, ended_at, error)
SELECT k.notice_id, k.webhook, k.gate_id, k.project, k.kind, k.body, k.status,
       CASE WHEN k.status = 'dead' THEN clock_timestamp() END, k.error
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
  AS k (notice_id, webhook, gate_id, project, kind, body, status, error)
ON CONFLICT (notice_id) DO NOTHING

-- name: claim_notices
-- A claim is a lease: a process that dies with it leaves the notice to be sent again, under its old id.
UPDATE runs.notice SET tries = tries + 1, due_at = clock_timestamp() + make_interval(secs => $3)
WHERE notice_id IN (
  SELECT notice_id FROM runs.notice
  WHERE status = 'pending' AND webhook = $1 AND due_at <= clock_timestamp()
  ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING notice_id, gate_id, body, tries

-- name: waiting_gate
SELECT gate_id, run_id, project, network, gate_type, reason, detail, approval_id, opened_at, expires_at
FROM runs.gate WHERE gate_id = $1 AND status = 'pending'

-- name: settle_notice
-- Only the try that holds the lease has a say.
UPDATE runs.notice SET status = $3, error = $4, due_at = clock_timestamp() + make_interval(secs => $5),
  ended_at = CASE WHEN $3 <> 'pending' THEN clock_timestamp() END
WHERE notice_id = $1 AND tries = $2 AND status = 'pending'

-- name: list_notices
SELECT notice_id, webhook, gate_id, kind, status, tries, created_at, due_at, ended_at, error FROM runs.notice
WHERE project = $1 AND created_at < coalesce($2::timestamptz, 'infinity')
ORDER BY created_at DESC LIMIT $3

-- name: list_notices_of_status
-- One plan is made for all values: each way in needs its index. The time is written as the index notice_status has it: by
-- created_at alone the planner would look through the notices of all statuses.
SELECT notice_id, webhook, gate_id, kind, status, tries, created_at, due_at, ended_at, error FROM runs.notice
WHERE project = $1 AND status = $4 AND created_at AT TIME ZONE 'UTC' < coalesce($2::timestamptz, 'infinity') AT TIME ZONE 'UTC'
ORDER BY created_at AT TIME ZONE 'UTC' DESC LIMIT $3

-- name: retry_notice
UPDATE runs.notice SET status = 'pending', tries = 0, due_at = clock_timestamp(), ended_at = NULL
WHERE notice_id = $1 AND project = $2 AND status = 'dead' RETURNING notice_id

-- name: end_unwanted
-- What nobody has tried for a day since it was due, to a webhook that this replica does not know: it left the file. While
-- files differ for a moment, a replica that knows it tries within seconds.
UPDATE runs.notice SET status = 'dead', error = 'the receiver is no longer in the file', ended_at = clock_timestamp()
WHERE status = 'pending' AND webhook <> ALL($1::text[]) AND due_at < clock_timestamp() - interval '1 day'

-- name: forget_notices
DELETE FROM runs.notice WHERE (status IN ('sent', 'obsolete') AND ended_at < now() - interval '7 days')
  OR (status = 'dead' AND ended_at < now() - interval '30 days')
