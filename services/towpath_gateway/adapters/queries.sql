-- name: find_key
SELECT k.prefix, k.secret_digest, k.caller, p.project, k.scopes, k.expires_at, k.revoked_at, now() AS now,
       ARRAY(SELECT r.role FROM gateway.principal_role r WHERE r.caller = k.caller ORDER BY r.role) AS roles
  FROM gateway.api_key k JOIN gateway.principal p USING (caller)
 WHERE k.prefix = $1;

-- name: list_keys
SELECT k.prefix, k.caller, p.project, k.scopes, k.note, k.created_by, k.created_at, k.expires_at, k.revoked_at,
       ARRAY(SELECT r.role FROM gateway.principal_role r WHERE r.caller = k.caller ORDER BY r.role) AS roles
  FROM gateway.api_key k JOIN gateway.principal p USING (caller)
 WHERE p.project = $1
 ORDER BY k.created_at, k.prefix;

-- name: claim_caller
INSERT INTO gateway.principal (caller, project) VALUES ($1, $2) ON CONFLICT (caller) DO NOTHING;

-- name: project_of
SELECT project FROM gateway.principal WHERE caller = $1;

-- name: grant_roles
INSERT INTO gateway.principal_role (caller, role, granted_by)
SELECT $1, role, $3 FROM unnest($2::text[]) AS role
ON CONFLICT (caller, role) DO NOTHING;

-- name: insert_key
INSERT INTO gateway.api_key (prefix, secret_digest, caller, scopes, note, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))
RETURNING created_at, expires_at,
          ARRAY(SELECT r.role FROM gateway.principal_role r WHERE r.caller = $3 ORDER BY r.role) AS roles;

-- name: revoke_key
UPDATE gateway.api_key k SET revoked_at = coalesce(k.revoked_at, now()), revoked_by = coalesce(k.revoked_by, $3)
  FROM gateway.principal p
 WHERE k.prefix = $1 AND p.caller = k.caller AND p.project = $2
RETURNING k.prefix;
