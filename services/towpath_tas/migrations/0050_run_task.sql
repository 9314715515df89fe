-- migrate:up
-- What a run was asked to do, in the caller's own words: where a value of a call comes from is told by comparing it with
-- these, and with what earlier calls returned (design §7, provenance). The first event and no other; as text, since
-- json may hold what Postgres can't take apart (\u0000).
CREATE VIEW tas.run_task AS
  SELECT e.run_id, e.event::text AS created FROM runs.run_event e WHERE e.seq = 1 AND e.type = 'run_created';
GRANT SELECT ON tas.run_task TO towpath_tas;

-- migrate:down
DROP VIEW tas.run_task;
