-- migrate:up
-- Letters are bounded: open ones of a stream and project are counted before one is added, old ones are forgotten, and of
-- those that others report only the beginning is kept. Their project is written down with them, as their run says it,
-- so that they stay that project's when the run is gone.
ALTER TABLE runs.dead_letter ADD COLUMN cut boolean NOT NULL DEFAULT false;
UPDATE runs.dead_letter d SET project = r.project FROM runs.run r WHERE r.run_id = d.run_id AND d.project IS NULL;
CREATE INDEX dead_letter_room ON runs.dead_letter (stream, (coalesce(project, ''))) WHERE status = 'dead';
CREATE INDEX dead_letter_effect ON runs.dead_letter (effect_id) WHERE effect_id IS NOT NULL;
GRANT DELETE ON runs.dead_letter TO towpath_orchestrator;
GRANT SELECT (run_id, project) ON runs.run TO towpath_tas;

-- migrate:down
REVOKE SELECT (run_id, project) ON runs.run FROM towpath_tas;
REVOKE DELETE ON runs.dead_letter FROM towpath_orchestrator;
DROP INDEX runs.dead_letter_effect, runs.dead_letter_room;
ALTER TABLE runs.dead_letter DROP COLUMN cut;
