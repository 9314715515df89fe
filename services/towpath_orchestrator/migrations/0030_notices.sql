-- migrate:up
-- Notices of gates to webhooks (design §7). `noticed` is the status of a gate that notices were last made of; what is
-- older than this table is no news.
ALTER TABLE runs.gate ADD COLUMN noticed text NOT NULL DEFAULT '';
UPDATE runs.gate SET noticed = status;
CREATE INDEX gate_unnoticed ON runs.gate (opened_at)
  WHERE noticed = '' OR (noticed = 'pending' AND status <> 'pending');

CREATE TABLE runs.notice (
  notice_id  uuid PRIMARY KEY,
  webhook    text NOT NULL,
  gate_id    uuid NOT NULL,
  project    text NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('gate.opened', 'gate.closed')),
  body       text NOT NULL,
  status     text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'dead')),
  tries      integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at   timestamptz,
  error      text NOT NULL DEFAULT ''
);
CREATE INDEX notice_due ON runs.notice (webhook, due_at) WHERE status = 'pending';
CREATE INDEX notice_ended ON runs.notice (ended_at) WHERE status <> 'pending';
CREATE INDEX notice_project ON runs.notice (project, created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON runs.notice TO towpath_orchestrator;

-- migrate:down
DROP TABLE runs.notice;
DROP INDEX runs.gate_unnoticed;
ALTER TABLE runs.gate DROP COLUMN noticed;
