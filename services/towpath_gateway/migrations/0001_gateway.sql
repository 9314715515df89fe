-- migrate:up
-- Who may call: callers with their one project, and their keys. Only digests of secrets are kept.
CREATE TABLE gateway.principal (
  caller text PRIMARY KEY CHECK (caller ~ '^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$'),
  project text NOT NULL CHECK (project ~ '^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$'),
  created_at timestamptz NOT NULL DEFAULT now(),
  past_roles text[] NOT NULL DEFAULT '{}'
);
COMMENT ON COLUMN gateway.principal.past_roles IS 'Roles of keys that are not stored any more.';
COMMENT ON TABLE gateway.principal IS 'A caller is one token of the subject task.submit.<caller> and belongs to one project for good.';
-- The caller of plain task.submit, which the orchestrator serves on the embedded platform only, and the person with the
-- token of such a platform, who asks over HTTP alone.
INSERT INTO gateway.principal (caller, project) VALUES ('anonymous', 'default'), ('local', 'default');

CREATE TABLE gateway.api_key (
  prefix text PRIMARY KEY,
  secret_digest bytea NOT NULL CHECK (length(secret_digest) = 32),
  caller text NOT NULL REFERENCES gateway.principal,
  scopes text[] NOT NULL,
  roles text[] NOT NULL DEFAULT '{}',
  note text NOT NULL DEFAULT '',
  created_by text NOT NULL,
  created_with text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  revoked_by text,
  revoked_with text,
  signed_out_at timestamptz,
  ended_sessions bigint[] NOT NULL DEFAULT '{}'
);
COMMENT ON COLUMN gateway.api_key.ended_sessions IS 'Sessions that somebody signed out of, by when they began in microseconds since 1970.';
COMMENT ON COLUMN gateway.api_key.roles IS 'Of this key alone: a key made earlier for the same caller never gains them.';
COMMENT ON COLUMN gateway.api_key.created_with IS 'Prefix of the key it was made with; empty for the command create-key.';
COMMENT ON COLUMN gateway.api_key.signed_out_at IS 'Sessions of browsers that were signed in with it up to then have ended.';
CREATE INDEX api_key_caller ON gateway.api_key (caller);
CREATE INDEX api_key_sign_ins ON gateway.api_key (expires_at) WHERE created_by = 'oidc';
CREATE INDEX api_key_made ON gateway.api_key (created_at, prefix);

-- Making and revoking a key are entries of the audit in the same transaction, whoever writes the row and whether or not
-- the tool-access service runs. The gateway has no other way to write there.
CREATE FUNCTION gateway.audit_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND (OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL) THEN
    RETURN NULL;
  END IF;
  PERFORM tas.write_audit('{}', ARRAY[tas.audit_own_note(
    (SELECT p.project FROM gateway.principal p WHERE p.caller = NEW.caller),
    CASE TG_OP WHEN 'INSERT' THEN 'key.created' ELSE 'key.revoked' END,
    CASE TG_OP WHEN 'INSERT' THEN NEW.created_by ELSE NEW.revoked_by END,
    json_build_object('key', NEW.prefix, 'commitment',
                      encode(sha256(convert_to(NEW.prefix, 'UTF8') || NEW.secret_digest), 'hex'), 'caller', NEW.caller, 'scopes', NEW.scopes, 'roles', NEW.roles,
                      'expires_at', NEW.expires_at,
                      'by_key', CASE TG_OP WHEN 'INSERT' THEN NEW.created_with ELSE NEW.revoked_with END)::text)]);
  RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION gateway.audit_key FROM PUBLIC;
CREATE TRIGGER audit_key AFTER INSERT OR UPDATE OF revoked_at ON gateway.api_key
  FOR EACH ROW EXECUTE FUNCTION gateway.audit_key();

-- What is revoked stays so, also for whoever has the gateway's rights.
CREATE FUNCTION gateway.keep_revoked() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.revoked_at IS NOT NULL AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION 'key % was revoked at %: make another one', OLD.prefix, OLD.revoked_at;
  END IF;
  RETURN NEW;
END $$;
REVOKE EXECUTE ON FUNCTION gateway.keep_revoked FROM PUBLIC;
CREATE TRIGGER keep_revoked BEFORE UPDATE ON gateway.api_key FOR EACH ROW EXECUTE FUNCTION gateway.keep_revoked();

-- A sign-in at a provider makes a key that nobody holds and that ends within hours: a day later it is taken away, the
-- oldest first. Its caller keeps the roles that it had, since nobody without them may make a key in that name.
CREATE FUNCTION gateway.drop_past_sign_ins(most integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH turn AS (SELECT pg_try_advisory_xact_lock(7026140) AS mine), past AS (
    DELETE FROM gateway.api_key k WHERE (SELECT mine FROM turn) AND k.prefix IN (
      SELECT o.prefix FROM gateway.api_key o
      WHERE o.created_by = 'oidc' AND o.expires_at < now() - interval '1 day'
      ORDER BY o.expires_at LIMIT most)
    RETURNING k.caller, k.roles
  ), had AS (
    UPDATE gateway.principal p SET past_roles = ARRAY(
      SELECT DISTINCT role FROM (SELECT unnest(p.past_roles) AS role
                                 UNION SELECT unnest(d.roles) FROM past d WHERE d.caller = p.caller) one ORDER BY role)
    WHERE p.caller IN (SELECT d.caller FROM past d)
  )
  SELECT count(*) FROM past
$$;
REVOKE EXECUTE ON FUNCTION gateway.drop_past_sign_ins FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gateway.drop_past_sign_ins TO towpath_gateway;

-- No other key is ever deleted, and no secret changed, so that records which name a key stay true.
GRANT SELECT, INSERT ON gateway.principal, gateway.api_key TO towpath_gateway;
GRANT UPDATE (revoked_at, revoked_by, revoked_with, signed_out_at, ended_sessions) ON gateway.api_key TO towpath_gateway;
GRANT SELECT ON gateway.principal TO towpath_orchestrator;

-- migrate:down
DROP TABLE gateway.api_key, gateway.principal;
DROP FUNCTION gateway.audit_key, gateway.keep_revoked, gateway.drop_past_sign_ins;
