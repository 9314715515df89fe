-- migrate:up
-- Budgets (design §5). What people limit stands in budget_limit; the version beside it tells replicas that it moved.
-- An account is opened when the first run spends from it, and counts every unit, limited or not. Its limits are copies,
-- so that one statement locks, checks and changes it.
CREATE TABLE runs.budget_limit (
  project     text NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('caller', 'project')),
  name        text NOT NULL,
  per_day     boolean NOT NULL,
  usd_micros  bigint,
  tokens      bigint,
  model_calls bigint,
  tool_calls  bigint,
  soft        double precision NOT NULL,
  on_soft     text NOT NULL CHECK (on_soft IN ('warn', 'gate')),
  set_by      text NOT NULL,
  set_at      timestamptz NOT NULL,
  reason      text NOT NULL DEFAULT '',
  PRIMARY KEY (project, kind, name, per_day)
);

CREATE TABLE runs.budget_version (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  version bigint NOT NULL
);
INSERT INTO runs.budget_version (version) VALUES (0);

CREATE TABLE runs.budget (
  project               text NOT NULL,
  scope                 text NOT NULL CHECK (scope IN ('run', 'agent', 'caller', 'project', 'day')),
  key                   text NOT NULL,
  usd_micros_limit      bigint,
  tokens_limit          bigint,
  model_calls_limit     bigint,
  tool_calls_limit      bigint,
  usd_micros_spent      bigint NOT NULL DEFAULT 0,
  tokens_spent          bigint NOT NULL DEFAULT 0,
  model_calls_spent     bigint NOT NULL DEFAULT 0,
  tool_calls_spent      bigint NOT NULL DEFAULT 0,
  usd_micros_reserved   bigint NOT NULL DEFAULT 0,
  tokens_reserved       bigint NOT NULL DEFAULT 0,
  model_calls_reserved  bigint NOT NULL DEFAULT 0,
  tool_calls_reserved   bigint NOT NULL DEFAULT 0,
  usd_micros_estimated  bigint NOT NULL DEFAULT 0,
  tokens_estimated      bigint NOT NULL DEFAULT 0,
  model_calls_estimated bigint NOT NULL DEFAULT 0,
  tool_calls_estimated  bigint NOT NULL DEFAULT 0,
  soft                  double precision NOT NULL,
  on_soft               text NOT NULL,
  opened_at             timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, scope, key)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON runs.budget_limit TO towpath_orchestrator;
GRANT SELECT, UPDATE ON runs.budget_version TO towpath_orchestrator;
GRANT SELECT, INSERT, UPDATE ON runs.budget TO towpath_orchestrator;

-- migrate:down
DROP TABLE runs.budget, runs.budget_version, runs.budget_limit;
