-- migrate:up
-- PostgreSQL lets everybody run a new function; who needs these has a grant of its own (tests/authority/postgres.yaml).
REVOKE EXECUTE ON FUNCTION runs.ensure_partitions(text, integer), runs.uuid_at(timestamptz) FROM PUBLIC;

-- migrate:down
GRANT EXECUTE ON FUNCTION runs.ensure_partitions(text, integer), runs.uuid_at(timestamptz) TO PUBLIC;
