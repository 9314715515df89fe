-- migrate:up
-- What is paused now (design §7): a row for each open switch. Who set it, when and why stays in the audit. A change moves
-- the project's registry version, so that no decision made under other switches is stored.
CREATE TABLE tas.switch (
  project   text NOT NULL,
  kind      text NOT NULL CHECK (kind IN ('project', 'network', 'tool', 'caller')),
  name      text NOT NULL,
  switch_id uuid NOT NULL,
  reason    text NOT NULL,
  paused_by text NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (project, kind, name)
);
GRANT SELECT, INSERT, DELETE ON tas.switch TO towpath_tas;

-- A denial names the agents of the network that have the right.
GRANT SELECT (digest, snapshot) ON runs.snapshot TO towpath_tas;

-- migrate:down
REVOKE SELECT (digest, snapshot) ON runs.snapshot FROM towpath_tas;
DROP TABLE tas.switch;
