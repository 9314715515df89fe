-- migrate:up
-- The networks in force, for a look at whether a policy speaks of agents that exist (design §7, checked at load).
CREATE VIEW tas.network_spec AS
  SELECT DISTINCT ON (n.project, n.name) n.project, n.name AS network, n.spec::text AS spec
  FROM runs.network_version n ORDER BY n.project, n.name, n.version DESC;
GRANT SELECT ON tas.network_spec TO towpath_tas;

-- migrate:down
DROP VIEW tas.network_spec;
