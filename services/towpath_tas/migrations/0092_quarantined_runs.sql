-- migrate:up
-- Runs that something keeps from going on may have calls that run: a stop looks for them too. Both columns are indexed
-- already, so that no change of a run costs more; and such runs are few.
CREATE INDEX run_quarantined ON runs.run (project, run_id) WHERE status = 'quarantined';

-- migrate:down
DROP INDEX runs.run_quarantined;
