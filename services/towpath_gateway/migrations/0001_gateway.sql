-- migrate:up
-- Who may call: callers with their one project, their roles, and their keys. Only digests of secrets are kept.
CREATE TABLE gateway.principal (
  caller text PRIMARY KEY CHECK (caller ~ '^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$'),
  project text NOT NULL CHECK (project ~ '^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$'),
  created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE gateway.principal IS 'A caller is one token of the subject task.submit.<caller> and belongs to one project for good.';
-- The caller of plain task.submit; the orchestrator serves it on the embedded platform only.
INSERT INTO gateway.principal (caller, project) VALUES ('anonymous', 'default');

CREATE TABLE gateway.principal_role (
  caller text NOT NULL REFERENCES gateway.principal,
  role text NOT NULL CHECK (role ~ '^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$'),
  granted_by text NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (caller, role)
);

CREATE TABLE gateway.api_key (
  prefix text PRIMARY KEY,
  secret_digest bytea NOT NULL CHECK (length(secret_digest) = 32),
  caller text NOT NULL REFERENCES gateway.principal,
  scopes text[] NOT NULL,
  note text NOT NULL DEFAULT '',
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  revoked_by text
);
CREATE INDEX api_key_caller ON gateway.api_key (caller);

-- A key is never deleted and its secret never changed, so that records which name it stay true.
GRANT SELECT, INSERT ON gateway.principal, gateway.principal_role, gateway.api_key TO towpath_gateway;
GRANT UPDATE (revoked_at, revoked_by) ON gateway.api_key TO towpath_gateway;
GRANT SELECT ON gateway.principal TO towpath_orchestrator;

-- migrate:down
DROP TABLE gateway.api_key, gateway.principal_role, gateway.principal;
