-- migrate:up
-- Where a queued run stands in its caller's queue: when it came, less so many seconds for each step of its priority.
-- That order does not change while it waits, so it is an index. Children have no place: they come first, by their birth.

ALTER TABLE runs.run ADD COLUMN queue_at timestamptz;
UPDATE runs.run SET queue_at = created_at - make_interval(secs => priority * 30)
WHERE status = 'queued' AND parent_run_id IS NULL;
CREATE INDEX run_turn ON runs.run (caller, network, queue_at NULLS FIRST, run_id) WHERE status = 'queued';
DROP INDEX runs.run_queue;

-- Which runs wait for children: those hold no room.
CREATE INDEX run_alive ON runs.run (parent_run_id)
  WHERE parent_run_id IS NOT NULL AND status IN ('queued', 'running', 'waiting', 'cancelling');

-- migrate:down
DROP INDEX runs.run_alive;
CREATE INDEX run_queue ON runs.run (caller, network, priority DESC, run_id) WHERE status = 'queued';
DROP INDEX runs.run_turn;
ALTER TABLE runs.run DROP COLUMN queue_at;
