-- What operators see of the platform as a whole.

-- name: workers
-- Processes that were heard of within $1 seconds and take calls, by toolset. Rows of others are few: they are forgotten.
SELECT project, toolset, count(*) AS workers FROM tas.worker
WHERE heard_at >= now() - make_interval(secs => $1) AND drained_at IS NULL GROUP BY project, toolset

-- name: audit
-- Entries that are not sealed yet, at most 100,000 of them counted, and the age of the oldest.
SELECT u.unsealed, coalesce(extract(epoch FROM clock_timestamp() - r.at), 0)::float8 AS oldest_s, clock_timestamp() AS at
FROM (SELECT count(*) AS unsealed, min(q.entry_id) AS oldest FROM (SELECT entry_id FROM tas.audit_unsealed LIMIT 100000) q) u
LEFT JOIN tas.audit_record r ON r.entry_id = u.oldest
