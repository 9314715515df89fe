-- name: find_key
SELECT k.prefix, k.secret_digest, k.caller, p.project, k.scopes, k.roles, k.expires_at, k.revoked_at,
       k.signed_out_at, k.ended_sessions, now() AS now
  FROM gateway.api_key k JOIN gateway.principal p USING (caller)
 WHERE k.prefix = $1;

-- name: list_keys
SELECT k.prefix, k.caller, p.project, k.scopes, k.roles, k.note, k.created_by, k.created_with, k.created_at,
       k.expires_at, k.revoked_at
  FROM gateway.api_key k JOIN gateway.principal p USING (caller)
 WHERE p.project = $1 AND (k.created_at, k.prefix) > (
       CASE WHEN $2::text IS NULL THEN '-infinity' ELSE (SELECT a.created_at FROM gateway.api_key a WHERE a.prefix = $2) END,
       coalesce($2, ''))
 ORDER BY k.created_at, k.prefix LIMIT $3;

-- name: claim_caller
INSERT INTO gateway.principal (caller, project) VALUES ($1, $2) ON CONFLICT (caller) DO NOTHING;

-- name: project_of
SELECT project FROM gateway.principal WHERE caller = $1;

-- name: roles_ever_held
SELECT unnest(roles) FROM gateway.api_key WHERE caller = $1
UNION SELECT unnest(past_roles) FROM gateway.principal WHERE caller = $1;

-- name: drop_past_sign_ins
SELECT gateway.drop_past_sign_ins($1);

-- name: roles_held
SELECT k.roles FROM gateway.api_key k JOIN gateway.principal p USING (caller)
 WHERE k.caller = $1 AND p.project = $2 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());

-- name: insert_key
INSERT INTO gateway.api_key (prefix, secret_digest, caller, scopes, roles, note, created_by, created_with, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now() + make_interval(secs => $9))
RETURNING created_at, expires_at;

-- name: end_session
-- Of the sessions that were ended before only those are kept that could go on: those that began after $3. Where these
-- are too many, all sessions up to now have ended.
UPDATE gateway.api_key k
   SET ended_sessions = CASE
         WHEN (SELECT count(*) FROM unnest(k.ended_sessions) s WHERE s > $3) < $4
         THEN ARRAY(SELECT s FROM unnest(k.ended_sessions) s WHERE s > $3 AND s <> $2) || $2::bigint
         ELSE '{}' END,
       signed_out_at = CASE
         WHEN (SELECT count(*) FROM unnest(k.ended_sessions) s WHERE s > $3) < $4 THEN k.signed_out_at
         ELSE now() END
 WHERE k.prefix = $1 AND k.revoked_at IS NULL;

-- name: revoke_key
UPDATE gateway.api_key k
   SET revoked_at = coalesce(k.revoked_at, now()), revoked_by = coalesce(k.revoked_by, $3),
       revoked_with = coalesce(k.revoked_with, $4)
  FROM gateway.principal p
 WHERE k.prefix = $1 AND p.caller = k.caller AND p.project = $2
RETURNING k.prefix;
