-- migrate:up
-- What a goal run says of a step beside its outcome: how far the goal was, and how sure the model, 0 to 1 (C7, C8).
ALTER TABLE history.agent_execution_steps
  ADD COLUMN progress double precision,
  ADD COLUMN confidence double precision;

-- migrate:down
ALTER TABLE history.agent_execution_steps DROP COLUMN confidence, DROP COLUMN progress;
