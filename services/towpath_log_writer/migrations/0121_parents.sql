-- migrate:up
-- The run that started a run (design §5, spawn); NULL for one that a caller submitted.
ALTER TABLE history.agent_execution_history ADD COLUMN parent_id uuid;
CREATE INDEX agent_execution_history_parent ON history.agent_execution_history (parent_id) WHERE parent_id IS NOT NULL;

-- migrate:down
DROP INDEX history.agent_execution_history_parent;
ALTER TABLE history.agent_execution_history DROP COLUMN parent_id;
