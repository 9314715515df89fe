-- migrate:up
-- Rates: how many calls a rule has let through in the current window of a whole project (design §7, constraints). One row
-- per rule, used again for every window. The windows are those of Postgres's clock, so that replicas agree.
CREATE TABLE tas.rate_count (
  project   text NOT NULL,
  rule      text NOT NULL,
  per_s     integer NOT NULL,
  window_no bigint NOT NULL,
  used      integer NOT NULL,
  PRIMARY KEY (project, rule)
) WITH (fillfactor = 70);

-- A count with `per_s` is one use of a rate of `calls` by a project; the others are uses of a limit by a run.
ALTER TYPE tas.count_new ADD ATTRIBUTE project text, ADD ATTRIBUTE per_s integer, ADD ATTRIBUTE calls integer;

CREATE FUNCTION tas.rate_window(per_s integer, at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT floor(extract(epoch FROM at) / per_s)::bigint
$$;

-- Locks counters, those of runs before those of projects, each in one order, and names the calls that may not use them: a
-- run's counter must stand where the decision saw it, a project's rate must have room.
CREATE OR REPLACE FUNCTION tas.lock_counts(counts tas.count_new[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  used_up uuid[] := '{}';
  rates tas.count_new[];
  began timestamptz;
BEGIN
  IF cardinality(counts) = 0 THEN
    RETURN used_up;
  END IF;
  INSERT INTO tas.rule_count (run_id, rule, used)
    SELECT DISTINCT k.run_id, k.rule, 0 FROM unnest(counts) k WHERE k.per_s IS NULL ORDER BY 1, 2 ON CONFLICT DO NOTHING;
  PERFORM FROM tas.rule_count u
    WHERE (u.run_id, u.rule) IN (SELECT k.run_id, k.rule FROM unnest(counts) k WHERE k.per_s IS NULL)
    ORDER BY u.run_id, u.rule FOR UPDATE;
  SELECT coalesce(array_agg(k.execution_id), '{}') INTO used_up FROM unnest(counts) k
    WHERE k.per_s IS NULL
      AND k.base <> (SELECT u.used FROM tas.rule_count u WHERE u.run_id = k.run_id AND u.rule = k.rule);
  SELECT array_agg(k) INTO rates FROM unnest(counts) k WHERE k.per_s IS NOT NULL;
  IF rates IS NULL THEN
    RETURN used_up;
  END IF;
  INSERT INTO tas.rate_count (project, rule, per_s, window_no, used)
    SELECT DISTINCT ON (k.project, k.rule) k.project, k.rule, k.per_s, 0, 0 FROM unnest(rates) k
    ORDER BY k.project, k.rule ON CONFLICT DO NOTHING;
  PERFORM FROM tas.rate_count r WHERE (r.project, r.rule) IN (SELECT k.project, k.rule FROM unnest(rates) k)
    ORDER BY r.project, r.rule FOR UPDATE;
  began := clock_timestamp();  -- after the locks: whoever waited for them may have crossed into the next window
  UPDATE tas.rate_count r SET per_s = k.per_s, window_no = tas.rate_window(k.per_s, began), used = 0
    FROM (SELECT DISTINCT ON (m.project, m.rule) m.project, m.rule, m.per_s FROM unnest(rates) m
          ORDER BY m.project, m.rule) k
    WHERE r.project = k.project AND r.rule = k.rule
      AND (r.per_s <> k.per_s OR r.window_no <> tas.rate_window(k.per_s, began));
  RETURN used_up || coalesce((
    SELECT array_agg(n.execution_id) FROM (
      SELECT k.execution_id, k.calls, r.used + row_number() OVER (PARTITION BY k.project, k.rule ORDER BY k.place) AS place
      FROM unnest(rates) WITH ORDINALITY k (run_id, rule, execution_id, base, project, per_s, calls, place)
      JOIN tas.rate_count r ON r.project = k.project AND r.rule = k.rule) n
    WHERE n.place > n.calls), '{}');
END $$;

CREATE OR REPLACE FUNCTION tas.add_counts(written uuid[], counts tas.count_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(counts) > 0 THEN
    UPDATE tas.rule_count u SET used = u.used + k.calls
      FROM (SELECT c.run_id, c.rule, count(*) AS calls FROM unnest(counts) c
            WHERE c.per_s IS NULL AND c.execution_id = ANY (written) GROUP BY c.run_id, c.rule) k
      WHERE u.run_id = k.run_id AND u.rule = k.rule;
    UPDATE tas.rate_count r SET used = r.used + k.calls
      FROM (SELECT c.project, c.rule, count(*) AS calls FROM unnest(counts) c
            WHERE c.per_s IS NOT NULL AND c.execution_id = ANY (written) GROUP BY c.project, c.rule) k
      WHERE r.project = k.project AND r.rule = k.rule;
  END IF;
END $$;

GRANT SELECT, INSERT, UPDATE ON tas.rate_count TO towpath_tas;
REVOKE EXECUTE ON FUNCTION tas.rate_window FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.rate_window TO towpath_tas;

-- migrate:down
CREATE OR REPLACE FUNCTION tas.lock_counts(counts tas.count_new[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  used_up uuid[] := '{}';
BEGIN
  IF cardinality(counts) > 0 THEN
    INSERT INTO tas.rule_count (run_id, rule, used)
      SELECT DISTINCT k.run_id, k.rule, 0 FROM unnest(counts) k ORDER BY 1, 2 ON CONFLICT DO NOTHING;
    PERFORM FROM tas.rule_count u WHERE (u.run_id, u.rule) IN (SELECT k.run_id, k.rule FROM unnest(counts) k)
      ORDER BY u.run_id, u.rule FOR UPDATE;
    SELECT coalesce(array_agg(k.execution_id), '{}') INTO used_up FROM unnest(counts) k
      WHERE k.base <> (SELECT u.used FROM tas.rule_count u WHERE u.run_id = k.run_id AND u.rule = k.rule);
  END IF;
  RETURN used_up;
END $$;

CREATE OR REPLACE FUNCTION tas.add_counts(written uuid[], counts tas.count_new[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(counts) > 0 THEN
    UPDATE tas.rule_count u SET used = u.used + k.calls
      FROM (SELECT c.run_id, c.rule, count(*) AS calls FROM unnest(counts) c WHERE c.execution_id = ANY (written)
            GROUP BY c.run_id, c.rule) k
      WHERE u.run_id = k.run_id AND u.rule = k.rule;
  END IF;
END $$;

DROP FUNCTION tas.rate_window;
DROP TABLE tas.rate_count;
ALTER TYPE tas.count_new DROP ATTRIBUTE project, DROP ATTRIBUTE per_s, DROP ATTRIBUTE calls;
