-- name: entry_at
SELECT tas.entry_at($1);

-- name: last_entry
SELECT coalesce(max(entry_id), 0) FROM tas.audit_record;

-- name: decisions
-- `repeated`: the call was decided before (an approval drifted). Only calls that once waited for a person can be.
SELECT e.entry_id AS decision, e.at AS decided_at, e.verdict AS decided_verdict, e.rule AS decided_rule,
       e.policy_version AS decided_version,
       t.approvals > 0 AND EXISTS (
         SELECT FROM tas.audit_entry f WHERE f.run_id = e.run_id AND f.execution_id = e.execution_id
           AND f.phase = 'decision' AND f.entry_id < e.entry_id) AS repeated,
       t.*
FROM (SELECT a.entry_id, a.at, a.run_id, a.execution_id, a.verdict, a.rule, a.policy_version
      FROM tas.audit_entry a
      WHERE a.entry_id > $2 AND a.entry_id <= $3 AND a.project = $1 AND a.phase = 'decision' AND a.actor = ''
        AND ($4::timestamptz IS NULL OR a.at >= $4) AND ($5::timestamptz IS NULL OR a.at <= $5)
      ORDER BY a.entry_id LIMIT $6) e
LEFT JOIN LATERAL (SELECT c.* FROM tas.tool_call c
                   WHERE c.run_id = e.run_id AND c.execution_id = e.execution_id AND c.erased_at IS NULL LIMIT 1) t
  ON true
ORDER BY e.entry_id;

-- name: statistics
-- Every group of the window and, from the groups, the whole. Entries are counted by all that figures tell apart, and the
-- figures summed from these few counts. `own` says that nobody acted but the service itself; it is of a type that can't be
-- sorted, so that they are counted in a table in memory: not knowing how many come, Postgres would sort half a million.
WITH shown AS MATERIALIZED (
  SELECT 'tool' = ANY ($6::text[]) AS tool, 'operation' = ANY ($6::text[]) AS operation,
         'agent' = ANY ($6::text[]) AS agent, 'network' = ANY ($6::text[]) AS network,
         'caller' = ANY ($6::text[]) AS caller, 'rule' = ANY ($6::text[]) AS rule
), counted AS MATERIALIZED (
  SELECT CASE WHEN (SELECT s.tool FROM shown s) THEN e.tool ELSE '' END AS tool,
         CASE WHEN (SELECT s.operation FROM shown s) THEN e.operation ELSE '' END AS operation,
         CASE WHEN (SELECT s.agent FROM shown s) THEN e.agent_key ELSE '' END AS agent,
         CASE WHEN (SELECT s.network FROM shown s) THEN e.network ELSE '' END AS network,
         CASE WHEN (SELECT s.caller FROM shown s) THEN e.caller ELSE '' END AS caller,
         CASE WHEN (SELECT s.rule FROM shown s) THEN coalesce(e.rule, '') ELSE '' END AS rule,
         e.phase, e.verdict, CASE WHEN e.actor = '' THEN '1'::xid ELSE '0'::xid END AS own, count(*) AS n
  FROM tas.audit_record e
  WHERE e.entry_id >= $2 AND e.entry_id < $3 AND e.project = $1 AND e.at >= $4 AND e.at <= $5
    AND e.phase IN ('decision', 'outcome', 'approval.consumed', 'approval.expired')
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
), groups AS MATERIALIZED (
  SELECT c.tool, c.operation, c.agent, c.network, c.caller, c.rule, sum(c.n)::bigint AS entries,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'decision' AND c.own = '1' AND c.verdict = 'allow'), 0)::bigint AS allowed,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'decision' AND c.own = '1' AND c.verdict = 'deny'), 0)::bigint AS denied,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'decision' AND c.own = '1' AND c.verdict = 'require_approval'), 0)::bigint AS gated,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'approval.consumed'), 0)::bigint AS approved,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'decision' AND c.own = '0' AND c.verdict = 'deny'), 0)::bigint AS refused,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'approval.expired'), 0)::bigint AS expired,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'outcome' AND c.verdict = 'succeeded'), 0)::bigint AS succeeded,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'outcome' AND c.verdict = 'failed'), 0)::bigint AS failed,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'outcome' AND c.verdict = 'unknown'), 0)::bigint AS unknown,
         coalesce(sum(c.n) FILTER (WHERE c.phase = 'outcome' AND c.verdict = 'void'), 0)::bigint AS void
  FROM counted c GROUP BY 1, 2, 3, 4, 5, 6)
(SELECT true AS whole, '' AS tool, '' AS operation, '' AS agent, '' AS network, '' AS caller, '' AS rule,
        coalesce(sum(g.entries), 0)::bigint AS entries, coalesce(sum(g.allowed), 0)::bigint AS allowed,
        coalesce(sum(g.denied), 0)::bigint AS denied, coalesce(sum(g.gated), 0)::bigint AS gated,
        coalesce(sum(g.approved), 0)::bigint AS approved, coalesce(sum(g.refused), 0)::bigint AS refused,
        coalesce(sum(g.expired), 0)::bigint AS expired, coalesce(sum(g.succeeded), 0)::bigint AS succeeded,
        coalesce(sum(g.failed), 0)::bigint AS failed, coalesce(sum(g.unknown), 0)::bigint AS unknown,
        coalesce(sum(g.void), 0)::bigint AS void
 FROM groups g)
UNION ALL
(SELECT false, g.* FROM groups g ORDER BY g.entries DESC, 2, 3, 4, 5, 6, 7 LIMIT $7);

-- name: entry_time
SELECT at FROM tas.audit_entry WHERE entry_id >= $1 ORDER BY entry_id LIMIT 1;

-- name: versions
SELECT version, digest, rules, source, note, applied_by, applied_at FROM tas.policy_version
WHERE project = $1 AND ($2::integer IS NULL OR version < $2) ORDER BY version DESC LIMIT $3;

-- name: rule_places
-- Where the rules of a version stand, for a text that is made from it.
SELECT name, rule->>'digest' AS digest, rule->>'at' AS at FROM tas.permission_rule WHERE project = $1 AND version = $2;

-- name: rules_of_versions
SELECT version, rule FROM tas.permission_rule WHERE project = $1 AND version = ANY ($2::integer[]) ORDER BY version, place;

-- name: set_shadow
INSERT INTO tas.shadow_policy (project, active, digest, rules, source, note, set_by, since_entry)
VALUES ($1, $2, $3, $4::json, $5, $6, $7, (SELECT coalesce(max(entry_id), 0) FROM tas.audit_record))
ON CONFLICT (project) DO UPDATE SET active = excluded.active, digest = excluded.digest, rules = excluded.rules,
  source = excluded.source, note = excluded.note, set_by = excluded.set_by, since_entry = excluded.since_entry,
  set_at = clock_timestamp();

-- name: end_shadow
UPDATE tas.shadow_policy SET active = false, set_by = $2, note = $3 WHERE project = $1 AND active RETURNING digest;

-- name: shadow_state
SELECT active, digest, json_array_length(rules) AS rules, source, note, set_by, set_at, since_entry
FROM tas.shadow_policy WHERE project = $1;

-- name: divergences
SELECT entry_id, at, run_id, execution_id, verdict, tool, network, agent_key, rule, policy_version, detail
FROM tas.audit_entry WHERE project = $1 AND phase = 'shadow' AND entry_id > $2 ORDER BY entry_id DESC LIMIT $3;

-- name: used_tools
-- Which tools some runs have used; $2 says to which root each of the runs $3 belongs. Only calls that succeeded count. The
-- limit of each run makes it one look into the index a run: joined otherwise, Postgres reads a middling ledger whole.
-- Erased calls are left out here and below: without arguments they would make every argument one that varies.
SELECT t.tool, t.operation, count(DISTINCT a.root)::integer AS runs, count(*)::integer AS calls
FROM unnest($2::uuid[], $3::uuid[]) AS a (root, run_id)
CROSS JOIN LATERAL (
  SELECT c.tool, c.operation FROM tas.tool_call c
  WHERE c.run_id = a.run_id AND c.project = $1 AND c.status = 'succeeded' AND c.erased_at IS NULL LIMIT 5000) t
GROUP BY t.tool, t.operation ORDER BY 3 DESC, 1, 2 LIMIT $4;

-- name: constant_arguments
-- Of the arguments that $3 and $4 name, tool by tool, those that all of these calls gave, with one value, as JSON text.
-- Postgres takes nothing out of JSON in which a string holds NUL, so such a call has no value here.
SELECT s.tool, t.operation, s.argument, min(v.value) AS value
FROM unnest($2::uuid[]) AS a (run_id)
CROSS JOIN LATERAL (
  SELECT c.tool, c.operation, c.args FROM tas.tool_call c
  WHERE c.run_id = a.run_id AND c.project = $1 AND c.status = 'succeeded' AND c.erased_at IS NULL LIMIT 5000) t
JOIN unnest($3::text[], $4::text[]) AS s (tool, argument) ON s.tool = t.tool
CROSS JOIN LATERAL (
  SELECT CASE WHEN strpos(t.args, '\u0000') = 0 THEN (t.args::json -> s.argument)::text END AS value) v
GROUP BY s.tool, t.operation, s.argument
HAVING count(v.value) = count(*) AND min(v.value) = max(v.value) AND max(length(v.value)) <= $5;
