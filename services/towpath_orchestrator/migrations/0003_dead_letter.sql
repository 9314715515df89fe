-- migrate:up
-- A dead letter is settled once, by a person: sent again or thrown away. It belongs to a project where its run does, and
-- is one row however often its message came (design §6).
ALTER TABLE runs.dead_letter
  ADD COLUMN project        text,
  ADD COLUMN effect_id      uuid,
  ADD COLUMN delivery       bigint,
  ADD COLUMN status         text NOT NULL DEFAULT 'dead',
  ADD COLUMN settled_at     timestamptz,
  ADD COLUMN settled_by     text NOT NULL DEFAULT '',
  ADD COLUMN settled_reason text NOT NULL DEFAULT '',
  ADD UNIQUE (stream, delivery);
CREATE INDEX dead_letter_open ON runs.dead_letter (dead_letter_id) WHERE status = 'dead';
GRANT UPDATE (status, settled_at, settled_by, settled_reason) ON runs.dead_letter TO towpath_orchestrator;
-- The letters of its own streams are sent again by TAS.
GRANT SELECT ON runs.dead_letter TO towpath_tas;

-- migrate:down
REVOKE SELECT ON runs.dead_letter FROM towpath_tas;
REVOKE UPDATE (status, settled_at, settled_by, settled_reason) ON runs.dead_letter FROM towpath_orchestrator;
DROP INDEX runs.dead_letter_open;
ALTER TABLE runs.dead_letter
  DROP COLUMN settled_reason, DROP COLUMN settled_by, DROP COLUMN settled_at, DROP COLUMN status, DROP COLUMN delivery,
  DROP COLUMN effect_id, DROP COLUMN project;
