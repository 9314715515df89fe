-- migrate:up
-- An export from some time on begins at the last checkpoint before it; there may be one a second.
CREATE INDEX audit_seal_at ON tas.audit_seal (at);

-- migrate:down
DROP INDEX tas.audit_seal_at;
