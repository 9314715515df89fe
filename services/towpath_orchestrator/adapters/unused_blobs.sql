-- Blobs that nothing has named; which may go, the functions of the migration say.

-- name: due_projects
-- Projects with a blob of which it was not asked for two days whether something names it: the first of each in the index.
WITH RECURSIVE firsts AS (
  (SELECT b.project, b.unnamed_until FROM runs.blob b WHERE NOT b.is_named ORDER BY b.project, b.unnamed_until LIMIT 1)
  UNION ALL
  SELECT n.project, n.unnamed_until FROM firsts f CROSS JOIN LATERAL (
    SELECT b.project, b.unnamed_until FROM runs.blob b WHERE NOT b.is_named AND b.project > f.project
    ORDER BY b.project, b.unnamed_until LIMIT 1) n
)
SELECT project FROM firsts WHERE unnamed_until < now() - interval '2 days'

-- name: find
SELECT looked_at, unused FROM runs.find_unused_blobs($1, $2)

-- name: delete
SELECT blobs, bytes FROM runs.delete_unused_blobs($1, $2)
