-- migrate:up
-- A blob belongs to a project like everything else: equal bytes in two projects are two rows (design §2, project).
ALTER TABLE runs.blob ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE runs.blob ALTER COLUMN project DROP DEFAULT;
ALTER TABLE runs.blob DROP CONSTRAINT blob_pkey, ADD PRIMARY KEY (project, digest);

-- migrate:down
DELETE FROM runs.blob b USING runs.blob other WHERE b.digest = other.digest AND b.project > other.project;
ALTER TABLE runs.blob DROP CONSTRAINT blob_pkey, ADD PRIMARY KEY (digest), DROP COLUMN project;
