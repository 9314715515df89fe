-- migrate:up
-- What runs is looked for in the runs that live, not in the whole ledger: an index of the calls by their status would be
-- written with every change of a call, for the sake of a stop that is rare.
GRANT SELECT (status) ON runs.run TO towpath_tas;

-- migrate:down
REVOKE SELECT (status) ON runs.run FROM towpath_tas;
