-- migrate:up
-- A second matrix beside the one in force, weighed for live calls and never obeyed. The last one of a project is kept
-- when it is switched off, so that what it found can still be read; `since_entry` is where its findings begin.
CREATE TABLE tas.shadow_policy (
  project     text PRIMARY KEY,
  active      boolean NOT NULL,
  digest      text NOT NULL,
  rules       json NOT NULL,
  source      text NOT NULL,
  note        text NOT NULL,
  set_by      text NOT NULL,
  set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  since_entry bigint NOT NULL
);

-- Costs nothing on the way of a call: no other phase is in it.
CREATE INDEX audit_shadow ON tas.audit_entry (project, entry_id) WHERE phase = 'shadow';

-- The first entry that is not older than *moment*, found by halving: ids rise with time, to within the length of a
-- commit, so a window of time is a range of the primary key and needs no index of its own.
CREATE FUNCTION tas.entry_at(moment timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  found record;
BEGIN
  SELECT min(entry_id), max(entry_id) + 1 INTO low, high FROM tas.audit_entry;
  IF low IS NULL THEN
    RETURN 0;
  END IF;
  WHILE low < high LOOP
    middle := (low + high) / 2;
    SELECT e.entry_id, e.at INTO found FROM tas.audit_entry e WHERE e.entry_id >= middle ORDER BY e.entry_id LIMIT 1;
    IF found.at < moment THEN
      low := found.entry_id + 1;
    ELSE
      high := middle;
    END IF;
  END LOOP;
  RETURN low;
END $$;

GRANT SELECT, INSERT, UPDATE ON tas.shadow_policy TO towpath_tas;
REVOKE EXECUTE ON FUNCTION tas.entry_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.entry_at TO towpath_tas;

-- migrate:down
DROP FUNCTION tas.entry_at;
DROP INDEX tas.audit_shadow;
DROP TABLE tas.shadow_policy;
