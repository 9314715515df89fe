-- migrate:up
-- Runs of a tree are listed by its root; no run that a caller submitted is in this index.

CREATE INDEX run_root ON runs.run (root_run_id, run_id DESC) WHERE root_run_id IS NOT NULL;

-- migrate:down
DROP INDEX runs.run_root;
