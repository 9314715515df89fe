-- migrate:up
-- A version that waits, or was refused, while it is what the tool's server offers: the accepted one is not there any more,
-- so its calls are held (core/registry.py, `drifted`).
ALTER TABLE tas.tool ADD COLUMN held boolean NOT NULL DEFAULT false;

-- migrate:down
ALTER TABLE tas.tool DROP COLUMN held;
