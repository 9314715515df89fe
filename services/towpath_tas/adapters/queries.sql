-- name: now
SELECT clock_timestamp();

-- name: open_calls
SELECT written, stale, at, postponed, postponed_until
FROM tas.open_calls($1::tas.call_new[], $2::tas.audit_new[], $3::tas.approval_new[], $4::tas.count_new[],
                    $5::tas.project_seen[]);

-- name: change_calls
SELECT written, stale, at
FROM tas.change_calls($1::tas.call_change[], $2::tas.audit_new[], $3::tas.approval_new[], $4::tas.project_seen[]);

-- name: read_calls
-- LIMIT keeps the planner from joining whole tables: it is one look at each key's place.
SELECT k.execution_id AS asked, clock_timestamp() AS read_at, coalesce(f.fence, 0) AS stored_fence,
       t.run_id, t.execution_id, t.project, t.network, t.snapshot_digest, t.agent_key, t.agent_type, t.caller, t.step,
       t.call_index, t.tool, t.operation, t.toolset, t.tool_version, t.effect_class, t.timeout_ms, t.args,
       t.args_digest, t.context, t.status, t.fence, t.attempt, t.deadline, t.policy_version, t.rule, t.approval_id,
       t.approvals, t.claims, t.fact, t.accepted, t.settled_by, t.revision, t.asked_digest, t.edited_by,
       coalesce(t.erased_at, (SELECT r.erased_at FROM runs.run r WHERE r.run_id = k.run_id)) AS erased_at,
       a.status AS approval_status, a.digest AS approval_digest, a.bound, a.rule AS approval_rule,
       a.reason AS approval_reason, a.requested_by, a.expires_at, a.decided_by, a.decided_at, a.decided_reason,
       a.args AS approval_args, a.gate_type, a.role, a.quorum, a.on_expiry, a.revisions,
       a.edited_by AS approval_edited_by,
       (SELECT json_agg(json_build_array(v.actor, v.verdict, v.reason, v.at, v.key_prefix) ORDER BY v.at, v.actor)
        FROM tas.approval_vote v WHERE v.approval_id = a.approval_id) AS votes
FROM unnest($1::uuid[], $2::uuid[]) AS k (run_id, execution_id)
LEFT JOIN LATERAL (SELECT c.* FROM tas.tool_call c
                   WHERE c.run_id = k.run_id AND c.execution_id = k.execution_id LIMIT 1) t ON true
LEFT JOIN LATERAL (SELECT x.fence FROM tas.fence x WHERE x.run_id = k.run_id LIMIT 1) f ON true
LEFT JOIN LATERAL (SELECT y.* FROM tas.approval y WHERE y.approval_id = t.approval_id LIMIT 1) a ON true;

-- name: read_counts
SELECT k.run_id, k.rule, coalesce(u.used, 0) AS used
FROM unnest($1::uuid[], $2::text[]) AS k (run_id, rule)
LEFT JOIN tas.rule_count u ON u.run_id = k.run_id AND u.rule = k.rule;

-- name: read_rates
SELECT k.project, k.rule,
       CASE WHEN r.per_s = k.per_s AND r.window_no = tas.rate_window(k.per_s, clock_timestamp()) THEN r.used ELSE 0 END AS used
FROM unnest($1::text[], $2::text[], $3::integer[]) AS k (project, rule, per_s)
LEFT JOIN tas.rate_count r ON r.project = k.project AND r.rule = k.rule;

-- name: find_approval
SELECT run_id, execution_id FROM tas.approval WHERE approval_id = $1 AND project = $2;

-- name: lock_fence
SELECT pg_advisory_xact_lock(uuid_hash_extended($1::uuid, 7026115));

-- name: raise_fence
-- The time is that of the raise, not of its repetitions: nothing of the run may be permitted or claimed after it.
INSERT INTO tas.fence (run_id, project, fence) VALUES ($1, $2, $3)
ON CONFLICT (run_id) DO UPDATE SET fence = greatest(tas.fence.fence, excluded.fence),
  raised_at = CASE WHEN excluded.fence > tas.fence.fence THEN clock_timestamp() ELSE tas.fence.raised_at END
RETURNING fence, clock_timestamp() AS at;

-- name: calls_of_run
SELECT t.* FROM tas.tool_call t WHERE t.run_id = $1 AND t.project = $2 ORDER BY t.execution_id FOR UPDATE;

-- name: project_state
-- With the digest of the rules that make the policy version.
SELECT s.policy_version, s.registry_version, v.rules_digest FROM tas.project_state s
LEFT JOIN tas.policy_version v ON v.project = s.project AND v.version = s.policy_version WHERE s.project = $1;

-- name: lock_project
INSERT INTO tas.project_state (project) VALUES ($1)
ON CONFLICT (project) DO UPDATE SET project = excluded.project
RETURNING policy_version, registry_version;

-- name: move_policy
UPDATE tas.project_state SET policy_version = $2 WHERE project = $1;

-- name: move_registry
UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1;

-- name: rules
SELECT place, name, effect, tool, operation, rule FROM tas.permission_rule WHERE project = $1 AND version = $2 ORDER BY place;

-- name: network_versions
-- Without their specs, which are long: those that are known are not read again.
SELECT network, version FROM tas.network_spec WHERE project = $1 ORDER BY network LIMIT $2;

-- name: network_specs
SELECT network, version, spec FROM tas.network_spec WHERE project = $1 AND network = ANY ($2::text[]);

-- name: network_spec
SELECT spec FROM tas.network_spec WHERE project = $1 AND network = $2;

-- name: rules_named
SELECT e.rule, count(*) AS calls FROM tas.audit_entry e
WHERE e.entry_id > (SELECT max(m.entry_id) FROM tas.audit_entry m) - $3
  AND e.project = $1 AND e.policy_version = $2 AND e.phase = 'decision'
GROUP BY e.rule;

-- name: policy
SELECT version, digest, text, rules, source, note, applied_by, applied_at FROM tas.policy_version
WHERE project = $1 ORDER BY version DESC LIMIT 1;

-- name: last_policy_of
SELECT source, digest FROM tas.policy_version WHERE project = $1 AND applied_by = $2
ORDER BY version DESC LIMIT 1;

-- name: policy_version
SELECT version, digest, text, rules, note, applied_by, applied_at FROM tas.policy_version
WHERE project = $1 AND version = $2;

-- name: restored_runs
SELECT run_id, lost_since FROM tas.restored_run WHERE project = $1;

-- name: shadow
SELECT rules, digest FROM tas.shadow_policy WHERE project = $1 AND active;

-- name: add_policy
INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, rules_digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: add_rules
INSERT INTO tas.permission_rule (project, version, place, name, effect, tool, operation, rule)
SELECT $1, $2, k.place, k.name, k.effect, k.tool, k.operation, k.rule
FROM unnest($3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::json[])
  AS k (place, name, effect, tool, operation, rule);

-- name: tools
-- Without their specs: most of them are known to whoever asks, and they may be long. A name may have any number of versions,
-- as many as its worker likes: so each is looked up by its newest, and no other is read.
WITH RECURSIVE names AS (
  (SELECT t.name FROM tas.tool t WHERE t.project = $1 ORDER BY t.name LIMIT 1)
  UNION ALL
  SELECT (SELECT t.name FROM tas.tool t WHERE t.project = $1 AND t.name > n.name ORDER BY t.name LIMIT 1)
  FROM names n WHERE n.name IS NOT NULL)
SELECT c.name, c.version, c.digest, c.chars, c.owner, CASE WHEN c.decided_at IS NULL THEN c.reason ELSE '' END AS doubt,
       coalesce((SELECT max(h.version) FROM tas.tool h WHERE h.project = $1 AND h.name = n.name
                   AND h.held AND (h.status <> 'accepted' OR h.withdrawn OR h.held)), 0) AS held_by
FROM names n CROSS JOIN LATERAL (
  SELECT t.* FROM tas.tool t WHERE t.project = $1 AND t.name = n.name AND t.status = 'accepted' AND NOT t.withdrawn
  ORDER BY t.version DESC LIMIT 1) c
ORDER BY n.name;

-- name: tool_specs
-- LIMIT keeps the planner from reading all versions that a project ever had, while the table is not analysed.
SELECT t.name, t.version, t.digest, t.spec FROM unnest($2::text[], $3::integer[]) AS k (name, version)
CROSS JOIN LATERAL (
  SELECT v.* FROM tas.tool v WHERE v.project = $1 AND v.name = k.name AND v.version = k.version LIMIT 1) t;

-- name: tools_kept
-- What a project has: the current version of each tool, and each version that waits.
WITH RECURSIVE names AS (
  (SELECT t.name FROM tas.tool t WHERE t.project = $1 ORDER BY t.name LIMIT 1)
  UNION ALL
  SELECT (SELECT t.name FROM tas.tool t WHERE t.project = $1 AND t.name > n.name ORDER BY t.name LIMIT 1)
  FROM names n WHERE n.name IS NOT NULL)
SELECT count(*) AS tools, coalesce(sum(k.chars), 0) AS chars FROM (
  SELECT n.name, c.chars FROM names n CROSS JOIN LATERAL (
    SELECT t.chars FROM tas.tool t WHERE t.project = $1 AND t.name = n.name AND t.status = 'accepted' AND NOT t.withdrawn
    ORDER BY t.version DESC LIMIT 1) c
  UNION ALL
  SELECT t.name, t.chars FROM tas.tool t
  WHERE t.project = $1 AND (t.status <> 'accepted' OR t.withdrawn OR t.held) AND t.status = 'pending') k;

-- name: toolset_known
SELECT EXISTS (SELECT FROM tas.tool WHERE project = $1 AND toolset = $2);

-- Which toolsets have accepted tools whose names begin with these words.
-- name: names_taken
SELECT DISTINCT split_part(name, '.', 1) AS head, toolset FROM tas.tool
WHERE project = $1 AND status = 'accepted' AND NOT withdrawn
  AND strpos(name, '.') > 0 AND split_part(name, '.', 1) = ANY ($2::text[])
ORDER BY head, toolset;

-- name: tool_versions
-- Of each name the newest version, the one in force with its spec, and what was not accepted or holds calls; nothing of the
-- versions that were in force before, of which there may be any number. What was withdrawn counts as refused.
SELECT t.name, t.version, t.digest, t.owner, t.held,
  CASE WHEN t.withdrawn THEN 'refused' ELSE t.status END AS status,
  CASE WHEN t.withdrawn THEN 'the tool was withdrawn' ELSE t.reason END AS reason,
  CASE WHEN t.version = c.version THEN t.spec END AS spec
FROM unnest($2::text[]) AS k (name)
LEFT JOIN LATERAL (
  SELECT v.version FROM tas.tool v WHERE v.project = $1 AND v.name = k.name AND v.status = 'accepted' AND NOT v.withdrawn
  ORDER BY v.version DESC LIMIT 1) c ON true
CROSS JOIN LATERAL (
  (SELECT v.version FROM tas.tool v WHERE v.project = $1 AND v.name = k.name ORDER BY v.version DESC LIMIT 1)
  UNION SELECT c.version
  UNION SELECT v.version FROM tas.tool v
  WHERE v.project = $1 AND v.name = k.name AND (v.status <> 'accepted' OR v.withdrawn OR v.held)) s (version)
CROSS JOIN LATERAL (
  SELECT v.* FROM tas.tool v WHERE v.project = $1 AND v.name = k.name AND v.version = s.version LIMIT 1) t
ORDER BY t.name, t.version;

-- name: add_tool
INSERT INTO tas.tool (project, name, version, digest, spec, chars, status, reason, toolset, owner, worker)
VALUES ($1, $2, $3, $4, $5::json, length($5::text), $6, $7, $8, $9, $10);

-- name: hold_tool
UPDATE tas.tool SET held = (version = $3) WHERE project = $1 AND name = $2 AND held <> (version = $3);

-- name: release_tool
-- Only what holds the calls lets them go: a version in between is not what the tool's server offers.
UPDATE tas.tool SET held = false WHERE project = $1 AND name = $2 AND version = $3 AND held;

-- name: proposals
SELECT name, version, digest, spec, status, reason, owner, worker, held, proposed_at FROM tas.tool
WHERE project = $1 AND (status = 'pending' OR held) AND ($3::text[] IS NULL OR name = ANY ($3))
ORDER BY name, version LIMIT $2;

-- name: decide_tool
UPDATE tas.tool SET status = $4, decided_at = clock_timestamp(), decided_by = $5, reason = $6
WHERE project = $1 AND name = $2 AND version = $3
  AND (status = 'pending' OR (status = 'refused' AND $4 = 'accepted')) RETURNING name;

-- name: withdraw_tool
-- All that was accepted under the name, so that no older version is in force again, if the one that somebody has looked at
-- still is. What the log says of the versions stays true.
UPDATE tas.tool t SET withdrawn = true, held = false
WHERE t.project = $1 AND t.name = $2 AND t.status = 'accepted' AND NOT t.withdrawn
  AND $3 = (SELECT max(c.version) FROM tas.tool c
            WHERE c.project = $1 AND c.name = $2 AND c.status = 'accepted' AND NOT c.withdrawn)
RETURNING t.version;

-- name: tool_withdrawn
SELECT true FROM tas.tool WHERE project = $1 AND name = $2 AND version = $3 AND withdrawn;

-- name: reinstate_tool
UPDATE tas.tool SET withdrawn = false WHERE project = $1 AND name = $2 AND version = $3 AND withdrawn RETURNING version;

-- name: toolsets
SELECT DISTINCT project, toolset FROM tas.tool WHERE status = 'accepted';

-- name: add_audit
SELECT tas.write_audit('{}', $1::tas.audit_new[]);

-- name: lock_run_actions
-- Two replicas may have the same request: the second one waits until it sees the first one's entry.
SELECT pg_advisory_xact_lock(uuid_hash_extended($1::uuid, 7026121));

-- name: run_action_said
-- Whether a person's act on a run has an entry: a request that was not answered is sent again within seconds.
SELECT EXISTS (SELECT FROM tas.audit_record
  WHERE run_id = $1 AND project = $2 AND phase = $3 AND actor = $4 AND at > clock_timestamp() - interval '1 minute');

-- name: audit
-- $13 and $14 bound what is looked through: ids rise with time, and a rare filter must not read the whole audit.
SELECT entry_id, at, project, run_id, execution_id, phase, verdict, tool, operation, network, agent_key, caller, actor,
       rule, policy_version, args_digest, detail, erased
FROM tas.audit_entry
WHERE project = $1 AND ($2::uuid IS NULL OR run_id = $2) AND ($3::uuid IS NULL OR execution_id = $3)
  AND ($4::text IS NULL OR agent_key = $4) AND ($5::text IS NULL OR tool = $5) AND ($6::text IS NULL OR verdict = $6)
  AND ($7::text IS NULL OR phase = $7) AND ($8::text IS NULL OR actor = $8)
  AND ($9::timestamptz IS NULL OR at >= $9) AND ($10::timestamptz IS NULL OR at <= $10)
  AND ($11::bigint IS NULL OR entry_id < $11) AND entry_id BETWEEN $13 AND $14
  AND ($15::text IS NULL OR args_digest = $15)
ORDER BY entry_id DESC LIMIT $12;

-- name: audit_of_run
SELECT entry_id, at, project, run_id, execution_id, phase, verdict, tool, operation, network, agent_key, caller, actor,
       rule, policy_version, args_digest, detail, erased
FROM tas.audit_entry
WHERE project = $1 AND run_id = $2 AND ($3::uuid IS NULL OR execution_id = $3)
  AND ($4::text IS NULL OR agent_key = $4) AND ($5::text IS NULL OR tool = $5) AND ($6::text IS NULL OR verdict = $6)
  AND ($7::text IS NULL OR phase = $7) AND ($8::text IS NULL OR actor = $8)
  AND ($9::timestamptz IS NULL OR at >= $9) AND ($10::timestamptz IS NULL OR at <= $10)
  AND ($11::bigint IS NULL OR entry_id < $11) AND entry_id BETWEEN $13 AND $14
  AND ($15::text IS NULL OR args_digest = $15)
ORDER BY entry_id DESC LIMIT $12;

-- name: audit_total
SELECT count(*) FROM (
  SELECT FROM tas.audit_entry
  WHERE project = $1 AND ($2::uuid IS NULL OR run_id = $2) AND ($3::uuid IS NULL OR execution_id = $3)
    AND ($4::text IS NULL OR agent_key = $4) AND ($5::text IS NULL OR tool = $5) AND ($6::text IS NULL OR verdict = $6)
    AND ($7::text IS NULL OR phase = $7) AND ($8::text IS NULL OR actor = $8)
    AND ($9::timestamptz IS NULL OR at >= $9) AND ($10::timestamptz IS NULL OR at <= $10)
    AND entry_id BETWEEN $12 AND $13 AND ($14::text IS NULL OR args_digest = $14)
  LIMIT $11) found;

-- name: audit_total_of_run
SELECT count(*) FROM (
  SELECT FROM tas.audit_entry
  WHERE project = $1 AND run_id = $2 AND ($3::uuid IS NULL OR execution_id = $3)
    AND ($4::text IS NULL OR agent_key = $4) AND ($5::text IS NULL OR tool = $5) AND ($6::text IS NULL OR verdict = $6)
    AND ($7::text IS NULL OR phase = $7) AND ($8::text IS NULL OR actor = $8)
    AND ($9::timestamptz IS NULL OR at >= $9) AND ($10::timestamptz IS NULL OR at <= $10)
    AND entry_id BETWEEN $12 AND $13 AND ($14::text IS NULL OR args_digest = $14)
  LIMIT $11) found;

-- name: dead_letter
SELECT stream, subject, body FROM runs.dead_letter WHERE dead_letter_id = $1;

-- name: project_of_call
SELECT project, toolset FROM tas.tool_call WHERE run_id = $1 AND execution_id = $2;

-- name: dead_deliveries
SELECT count(*) FROM runs.dead_letter WHERE effect_id = $2 AND run_id = $1 AND stream = 'TOOLEXEC';

-- name: add_piece
INSERT INTO tas.blob_piece (execution_id, digest, piece, data) VALUES ($1, $2, $3, $4)
ON CONFLICT (execution_id, digest, piece) DO UPDATE SET data = excluded.data, arrived_at = clock_timestamp();

-- name: pieces
SELECT piece, data FROM tas.blob_piece WHERE execution_id = $1 AND digest = $2 ORDER BY piece;

-- name: drop_pieces
DELETE FROM tas.blob_piece WHERE execution_id = $1 AND digest = $2;

-- name: drop_old_pieces
DELETE FROM tas.blob_piece WHERE arrived_at < clock_timestamp() - interval '1 hour';

-- name: add_blob
INSERT INTO runs.blob (project, digest, data, size) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, digest) DO UPDATE SET used_at = now();

-- name: blob_exists
-- The same bytes are wanted once more: whoever erases another run that names them leaves them here.
UPDATE runs.blob SET used_at = now() WHERE project = $1 AND digest = $2 RETURNING true;

-- name: use_blobs
-- What an outcome names was stored before it, and some time ago where the broker or this service was away meanwhile: nobody
-- deletes it as unused before the ledger has the outcome.
WITH named AS (
  SELECT b.project, b.digest FROM runs.blob b JOIN unnest($1::text[], $2::text[]) AS n (project, digest)
    ON b.project = n.project AND b.digest = n.digest
  WHERE b.used_at < now() - interval '1 hour' ORDER BY b.project, b.digest FOR UPDATE OF b
)
UPDATE runs.blob b SET used_at = now() FROM named n WHERE b.project = n.project AND b.digest = n.digest;

-- name: files_of_call
-- The list of files that a call under way works with, as its run has stored it.
SELECT c.context::json->>'workspace' AS digest, b.data FROM tas.tool_call c
JOIN runs.blob b ON b.project = c.project AND b.digest = c.context::json->>'workspace'
WHERE c.run_id = $1 AND c.execution_id = $2 AND c.status IN ('permitted', 'started', 'unknown');

-- name: blob_data
SELECT data FROM runs.blob WHERE project = $1 AND digest = $2;

-- name: blob_wanted
SELECT true FROM tas.tool_call
WHERE run_id = $1 AND execution_id = $2 AND status IN ('permitted', 'started', 'unknown');

-- name: ensure_partitions
SELECT runs.ensure_partitions('tas.tool_call', 3);
