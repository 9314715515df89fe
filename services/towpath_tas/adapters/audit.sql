-- name: seal_due
SELECT EXISTS (SELECT FROM tas.audit_unsealed) AS waiting, s.seal_id, s.at AS sealed_at
FROM (SELECT) one LEFT JOIN (SELECT seal_id, at FROM tas.audit_seal ORDER BY seal_id DESC LIMIT 1) s ON true;

-- name: try_seal_lock
SELECT pg_try_advisory_xact_lock(7026120);

-- name: seal_lock
SELECT pg_advisory_xact_lock(7026120);

-- name: last_seal
SELECT seal_id, size, root, edge, at, note FROM tas.audit_seal ORDER BY seal_id DESC LIMIT 1;

-- name: first_seal
SELECT seal_id, size, root, edge, at, note FROM tas.audit_seal ORDER BY seal_id LIMIT 1;

-- name: seal_known
SELECT size, root FROM tas.audit_seal WHERE seal_id = $1;

-- name: was_dropped
-- Does an entry that is sealed, or waits for it, say that retention dropped what was before $1 leaves of the root $2?
SELECT EXISTS (SELECT FROM tas.audit_record r JOIN tas.audit_payload p ON p.entry_id = r.entry_id
               WHERE r.phase = 'audit.dropped'
                 AND p.detail::json->>'to' = $1 AND p.detail::json->>'root' = $2
                 AND (EXISTS (SELECT FROM tas.audit_leaf l WHERE l.entry_id = r.entry_id)
                      OR EXISTS (SELECT FROM tas.audit_unsealed u WHERE u.entry_id = r.entry_id)));

-- name: take_leaves
SELECT leaf_index, hash FROM tas.take_leaves($1);

-- name: now
SELECT pg_catalog.clock_timestamp();

-- name: add_seal
INSERT INTO tas.audit_seal (seal_id, size, root, edge, at, note) VALUES ($1, $2, $3, $4, $5, $6);

-- name: add_key
INSERT INTO tas.audit_key (public_key) VALUES ($1) ON CONFLICT (public_key) DO NOTHING RETURNING public_key;

-- name: keys
SELECT public_key FROM tas.audit_key ORDER BY first_used, public_key;

-- name: first_leaf
SELECT leaf_index FROM tas.audit_leaf ORDER BY leaf_index LIMIT 1;

-- name: seal_of_size
SELECT seal_id, size, edge, at, note FROM tas.audit_seal WHERE size = $1 ORDER BY seal_id LIMIT 1;

-- name: seal_before
-- Entries bear the time of Postgres, seals that of a sealer: a seal may cover entries that are later than it by $2.
SELECT seal_id, size, edge, at, note FROM tas.audit_seal s
WHERE s.at < $1 AND (s.at < $1 - $2::interval OR NOT EXISTS (
  SELECT FROM tas.audit_leaf l JOIN tas.audit_record r ON r.entry_id = l.entry_id
  WHERE l.leaf_index < s.size AND r.at >= $1
    AND l.leaf_index >= (SELECT coalesce(max(o.size), 0) FROM tas.audit_seal o WHERE o.at < $1 - $2::interval)))
ORDER BY s.at DESC, s.seal_id DESC LIMIT 1;

-- name: edge_within
-- A checkpoint of at least $1 and fewer than $2 leaves: the roots of perfect subtrees that its edge holds are stored.
SELECT size, edge FROM tas.audit_seal WHERE size >= $1 AND size < $2 ORDER BY size LIMIT 1;

-- name: leaf_hashes
SELECT leaf_index, hash FROM tas.audit_leaf WHERE leaf_index >= $1 AND leaf_index < $2 ORDER BY leaf_index;

-- name: earlier
-- What let calls go before leaf $3, with the payloads: by which rules, with which arguments, who was asked, and who voted.
-- Of a payload that is larger than $4 only the entry is shown.
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r
JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id AND octet_length(p.detail) <= $4
WHERE r.run_id = ANY ($1::uuid[]) AND r.execution_id = ANY ($2::uuid[]) AND l.leaf_index < $3
  AND ((r.phase = 'decision' AND r.verdict IN ('allow', 'require_approval')) OR r.phase LIKE 'approval.%')
ORDER BY l.leaf_index;

-- name: policies_before
-- The entries before leaf $3 that applied the policy versions $2 of the projects $1; larger payloads than $4 are not shown.
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM (SELECT DISTINCT project, version FROM unnest($1::text[], $2::integer[]) AS n (project, version)) k
JOIN tas.audit_record r ON r.project = k.project AND r.policy_version = k.version AND r.phase = 'policy.applied'
JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id AND octet_length(p.detail) <= $4
WHERE l.leaf_index < $3 ORDER BY l.leaf_index;

-- name: newest_policy_before
-- The entry before leaf $2 that applied the newest policy version of project $1; a larger payload than $3 is not shown.
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r
JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id AND octet_length(p.detail) <= $3
WHERE r.project = $1 AND r.phase = 'policy.applied' AND l.leaf_index < $2 ORDER BY r.policy_version DESC LIMIT 1;

-- name: dropped_before
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r
JOIN tas.audit_leaf l ON l.entry_id = r.entry_id JOIN tas.audit_payload p ON p.entry_id = r.entry_id
WHERE r.phase = 'audit.dropped' AND l.leaf_index < $1 ORDER BY l.leaf_index DESC LIMIT 1;

-- name: erasures_before
-- Who asked for the erasures $1 and who confirmed them, as far as that stands before leaf $2.
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r
JOIN tas.audit_leaf l ON l.entry_id = r.entry_id JOIN tas.audit_payload p ON p.entry_id = r.entry_id
WHERE r.phase IN ('audit.erase_requested', 'audit.erase_confirmed') AND l.leaf_index < $2
  AND EXISTS (SELECT FROM unnest($1::text[]) k (erasure_id) WHERE position(k.erasure_id IN p.detail) > 0)
ORDER BY l.leaf_index;

-- name: note_of_size
SELECT note FROM tas.audit_seal WHERE size = $1 ORDER BY seal_id DESC LIMIT 1;

-- name: entries_to_prove
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id
WHERE r.project = $1 AND r.run_id = $2 AND ($3::uuid IS NULL OR r.execution_id = $3) AND l.leaf_index < $4
ORDER BY l.leaf_index LIMIT $5;

-- name: entry_to_prove
SELECT l.leaf_index, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation,
       r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version, encode(r.commitment, 'hex') AS commitment,
       p.salt, p.args_digest, p.detail
FROM tas.audit_record r JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id
WHERE r.entry_id = $2 AND r.project = $1 AND l.leaf_index < $3;

-- name: seals
SELECT seal_id, size, note FROM tas.audit_seal WHERE seal_id > $1 AND seal_id <= $2 ORDER BY seal_id LIMIT $3;

-- name: leaves
-- A leaf whose record is gone is returned too: somebody removed it.
SELECT l.leaf_index, l.hash, l.entry_id AS leaf_entry_id, r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase,
       r.verdict, r.tool, r.operation, r.network, r.agent_key, r.caller, r.actor, r.rule, r.policy_version,
       encode(r.commitment, 'hex') AS commitment, p.salt, p.args_digest, p.detail
FROM tas.audit_leaf l
LEFT JOIN tas.audit_record r ON r.entry_id = l.entry_id
LEFT JOIN tas.audit_payload p ON p.entry_id = l.entry_id
WHERE l.leaf_index >= $1 AND l.leaf_index < $2 ORDER BY l.leaf_index LIMIT $3;

-- name: moved
-- Were payloads or runs of project $2 erased, or segments dropped, by an entry that has a leaf from $1 on or waits for
-- one? Rows of a run may be empty from its confirmation on.
-- An erasure and its entry are one commit, and this is one look: whoever asks after he has read has missed none.
WITH moving AS MATERIALIZED (
  SELECT r.entry_id FROM tas.audit_record r
  WHERE r.phase IN ('audit.dropped', 'audit.erased', 'audit.erase_confirmed', 'audit.pruned')
    AND (r.phase = 'audit.dropped' OR $2 IN (r.project, '*'))
)
SELECT EXISTS (SELECT FROM moving m CROSS JOIN LATERAL (
                 SELECT FROM tas.audit_leaf l WHERE l.entry_id = m.entry_id AND l.leaf_index >= $1 LIMIT 1) sealed)
    OR EXISTS (SELECT FROM tas.audit_unsealed u WHERE u.entry_id IN (SELECT m.entry_id FROM moving m)) AS moved,
       coalesce((SELECT l.leaf_index + 1 FROM tas.audit_leaf l ORDER BY l.leaf_index DESC LIMIT 1), 0) AS seen;

-- name: policy_versions
SELECT v.project, v.version, v.digest, v.applied_at
FROM (SELECT DISTINCT project, version FROM unnest($1::text[], $2::integer[]) AS k (project, version)) named
JOIN tas.policy_version v ON v.project = named.project AND v.version = named.version
ORDER BY v.project, v.version;

-- name: steps
SELECT k.run_id, a.execution_id, a.seq, a.kept, a.erased, a.caller, a.project
FROM (SELECT n.run_id, array_agg(DISTINCT n.execution_id) AS calls
      FROM unnest($1::uuid[], $2::uuid[]) AS n (run_id, execution_id) GROUP BY n.run_id) k
CROSS JOIN LATERAL tas.asked_in_run(k.run_id, k.calls) a
ORDER BY k.run_id, a.execution_id;

-- name: effects
-- Ledger row and entries are read in one look, so one that is just being sealed is never missed. An entry that has no leaf
-- and waits for none is no entry. Whether a call was let go is told by its status or, as that may be rewritten, by a claim:
-- rows that are neither are left out by who asks.
WITH let_go AS MATERIALIZED (
  SELECT t.run_id, t.execution_id, t.project, t.tool, t.operation, t.status, t.effect_class, t.policy_version,
         t.created_at
  FROM tas.tool_call t
  WHERE $1 IN (t.project, '*') AND (t.run_id, t.execution_id) > ($2, $3)
    AND ($4::timestamptz IS NULL OR t.created_at >= $4) AND ($5::timestamptz IS NULL OR t.created_at <= $5)
  ORDER BY t.run_id, t.execution_id LIMIT $6
), waiting AS MATERIALIZED (
  SELECT u.entry_id FROM tas.audit_unsealed u
), entries AS (
  SELECT r.run_id, r.execution_id, min(l.leaf_index) FILTER (WHERE r.verdict = 'allow') AS leaf,
         min(r.at) FILTER (WHERE r.verdict = 'allow') AS at,
         max(coalesce(l.leaf_index, 9223372036854775807)) AS last_leaf, max(r.at) AS last_at,
         bool_or(r.phase = 'claim') AS claimed
  FROM (SELECT DISTINCT run_id FROM let_go) k
  JOIN tas.audit_record r ON r.run_id = k.run_id
  LEFT JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
  WHERE (r.phase IN ('decision', 'approval.consumed', 'approval.expired', 'dispatch', 'outcome', 'settled')
         OR (r.phase, r.verdict) IN (('held', 'waits'), ('claim', 'granted')))
    AND (l.entry_id IS NOT NULL OR r.entry_id IN (SELECT w.entry_id FROM waiting w))
  GROUP BY r.run_id, r.execution_id
)
SELECT g.*, s.at AS decided_at, s.leaf AS decided_leaf, s.last_leaf, s.last_at, coalesce(s.claimed, false) AS claimed
FROM let_go g LEFT JOIN entries s ON s.run_id = g.run_id AND s.execution_id = g.execution_id
ORDER BY g.run_id, g.execution_id;

-- name: droppable
-- The last seal that is old enough and not too far: a drop is one transaction, and should not be a long one.
SELECT max(s.size) FROM tas.audit_seal s, (SELECT min(leaf_index) AS first FROM tas.audit_leaf) l
WHERE s.at < clock_timestamp() - make_interval(days => $1) - $3::interval AND s.size > l.first AND s.size <= l.first + $2;

-- name: drop_segments
SELECT tas.drop_segments($1, $2);

-- name: stored_calls
-- Digests are made from the texts, as towpath_contracts.canonical.digest_text makes them. Row and last entry that moved the
-- call are read in one look, as in `effects`.
SELECT t.execution_id, t.project, t.network, t.agent_key, t.caller, t.tool, t.operation, t.rule, t.policy_version,
       t.tool_version, t.status, t.args_digest, t.asked_digest, t.edited_by, t.fact, t.settled_by, t.erased_at,
       'sha256:' || encode(sha256(convert_to(t.args, 'UTF8')), 'hex') AS args_made,
       'sha256:' || encode(sha256(convert_to(t.asked_args, 'UTF8')), 'hex') AS asked_made, e.last_leaf, e.last_at
FROM (SELECT DISTINCT run_id, execution_id FROM unnest($1::uuid[], $2::uuid[]) AS n (run_id, execution_id)) k
JOIN tas.tool_call t ON t.run_id = k.run_id AND t.execution_id = k.execution_id
LEFT JOIN LATERAL (
  SELECT max(coalesce(l.leaf_index, 9223372036854775807)) AS last_leaf, max(r.at) AS last_at
  FROM tas.audit_record r LEFT JOIN tas.audit_leaf l ON l.entry_id = r.entry_id
  WHERE r.run_id = k.run_id AND r.execution_id = k.execution_id
    AND (r.phase IN ('decision', 'approval.consumed', 'approval.expired', 'dispatch', 'outcome', 'settled')
         OR (r.phase, r.verdict) IN (('held', 'waits'), ('claim', 'granted')))
    AND (l.entry_id IS NOT NULL OR r.entry_id IN (SELECT u.entry_id FROM tas.audit_unsealed u))) e ON true;

-- name: stored_blobs
-- The digests of the bytes of results, as they are stored: the smallest first, of at most $3 bytes together. What is gone,
-- or too much to be read, is left out.
SELECT b.project, b.digest, 'sha256:' || encode(sha256(b.data), 'hex') AS made
FROM (SELECT n.project, n.digest, sum(octet_length(s.data)) OVER (ORDER BY octet_length(s.data), n.project, n.digest) AS so_far
      FROM (SELECT DISTINCT project, digest FROM unnest($1::text[], $2::text[]) AS a (project, digest)) n
      JOIN runs.blob s ON s.project = n.project AND s.digest = n.digest) k
JOIN runs.blob b ON b.project = k.project AND b.digest = k.digest
WHERE k.so_far <= $3;

-- name: stored_approvals
SELECT a.approval_id, a.run_id, a.execution_id, a.project, a.status, a.digest, a.bound, a.requested_by, a.decided_by,
       a.decided_reason, a.role, a.quorum, a.revisions, a.edited_by,
       'sha256:' || encode(sha256(convert_to(a.args, 'UTF8')), 'hex') AS args_made,
       (SELECT json_agg(json_build_array(v.actor, v.verdict, v.reason, v.digest, v.key_prefix, v.at))
        FROM tas.approval_vote v WHERE v.approval_id = a.approval_id) AS votes
FROM tas.approval a WHERE a.approval_id = ANY ($1::uuid[]);

-- name: stored_policy
SELECT digest, 'sha256:' || encode(sha256(convert_to(text, 'UTF8')), 'hex') AS text_digest, rules, source, note,
       applied_by, rules_digest
FROM tas.policy_version WHERE project = $1 AND version = $2;

-- name: stored_rules
SELECT place, name, effect, tool, operation, rule FROM tas.permission_rule
WHERE project = $1 AND version = $2 ORDER BY place;

-- name: stored_tool
SELECT digest, spec::text AS spec, status, reason, toolset, owner, worker, decided_by,
       decided_at FROM tas.tool
WHERE project = $1 AND name = $2 AND version = $3;
