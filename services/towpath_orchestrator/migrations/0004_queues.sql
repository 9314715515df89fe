-- migrate:up
-- Queued runs are read from the front of each caller's queue for each network (design §4, admission).
CREATE INDEX run_queue ON runs.run (caller, network, priority DESC, run_id) WHERE status = 'queued';
DROP INDEX runs.run_queued;

-- migrate:down
DROP INDEX runs.run_queue;
CREATE INDEX run_queued ON runs.run (priority DESC, run_id) WHERE status = 'queued';
