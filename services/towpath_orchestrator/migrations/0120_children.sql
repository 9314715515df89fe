-- migrate:up
-- Child runs (design §5): whose child a run is, and how deep it stands. A run that a caller submitted is its own root.

ALTER TABLE runs.run ADD COLUMN parent_run_id uuid, ADD COLUMN root_run_id uuid, ADD COLUMN depth smallint NOT NULL DEFAULT 0;
CREATE INDEX run_parent ON runs.run (parent_run_id) WHERE parent_run_id IS NOT NULL;

-- migrate:down
DROP INDEX runs.run_parent;
ALTER TABLE runs.run DROP COLUMN parent_run_id, DROP COLUMN root_run_id, DROP COLUMN depth;
