-- migrate:up
-- Execution history: what happened in a run, for people and for analysis. The record is the run log; these tables are
-- made from it and can be made again.

CREATE TABLE history.agent_execution_history (
  id                uuid PRIMARY KEY,            -- the run id
  agent_id          text NOT NULL,               -- the agent that began
  task_id           text NOT NULL,               -- the run id again, under the name that analysts' queries use
  project_id        text NOT NULL,
  kind              text NOT NULL,
  network           text NOT NULL,
  version           integer NOT NULL,
  caller            text NOT NULL,
  created_at        timestamptz NOT NULL,
  started_at        timestamptz NOT NULL,        -- when it was admitted; until then, when it was accepted
  completed_at      timestamptz,
  total_steps       integer,
  status            text NOT NULL,               -- queued, running, waiting (people are asked, here or in a run below),
                                                 -- cancelling, quarantined, or one of the final statuses
  final_status      text,                        -- success, failed, escalated
  reason            text,
  escalation_reason text,
  total_cost_usd    numeric(18, 8),              -- NULL while the run goes on, and where a price is unknown
  total_tokens      bigint,
  state_snapshot    jsonb NOT NULL,              -- task and, at the end, the final state
  parent_id         uuid,                        -- the run that started this one; NULL for one that a caller submitted
  waits             jsonb NOT NULL DEFAULT '{}'  -- gates and child runs: whether people are asked there still
);
CREATE INDEX agent_execution_history_project ON history.agent_execution_history (project_id, id DESC);
CREATE INDEX agent_execution_history_parent ON history.agent_execution_history (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE history.agent_execution_steps (
  execution_id    uuid NOT NULL REFERENCES history.agent_execution_history (id) ON DELETE CASCADE,
  step_number     integer NOT NULL,
  id              uuid NOT NULL,
  project_id      text NOT NULL,
  "timestamp"     timestamptz NOT NULL,          -- when the decision was asked for
  ended_at        timestamptz NOT NULL,          -- when the last thing happened in the step
  duration_ms     integer GENERATED ALWAYS AS ((extract(epoch FROM ended_at - "timestamp") * 1000)::integer) STORED,
  agent_id        text,
  epoch           integer,
  input_preview   text,
  reasoning       text,
  action          jsonb,                         -- what the model proposed
  result          jsonb,                         -- by call index; large results only in tool_execution
  validation      jsonb,
  success         boolean,
  error           text,
  attempt_number  integer NOT NULL,              -- decisions asked for in the step
  tokens_used     bigint NOT NULL,
  cost_usd        numeric(18, 8),                -- NULL where a price is unknown
  decisions       jsonb,                         -- by request id: model, usage, cost, digests, time
  progress        double precision,              -- of a goal: how far it is, 0 to 1
  confidence      double precision,              -- of a goal: how sure the model is, 0 to 1
  PRIMARY KEY (execution_id, step_number)
) WITH (fillfactor = 70);

CREATE TABLE history.tool_execution (
  run_id         uuid NOT NULL,
  execution_id   uuid NOT NULL,
  project_id     text NOT NULL,
  step_number    integer NOT NULL,
  call_index     integer NOT NULL,
  agent_id       text NOT NULL,
  tool           text NOT NULL,
  args           json,
  status         text NOT NULL,
  result         json,
  result_digest  text,
  result_bytes   bigint,
  blob           boolean,
  failure        json,
  denial         json,
  duration_ms    integer,
  worker         text,
  policy_version integer,
  requested_at   timestamptz,
  finished_at    timestamptz,
  PRIMARY KEY (run_id, execution_id)
) WITH (fillfactor = 70);

CREATE TABLE history.llm_call (
  run_id        uuid NOT NULL,
  request_id    uuid NOT NULL,
  attempt       integer NOT NULL,
  call          integer NOT NULL,
  project_id    text NOT NULL,
  step_number   integer NOT NULL,
  agent_id      text NOT NULL,
  kind          text NOT NULL,
  model         text NOT NULL,
  started_at    timestamptz NOT NULL,
  duration_ms   integer NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  total_tokens  bigint NOT NULL,
  cached_tokens bigint NOT NULL DEFAULT 0,       -- of input_tokens, as cache_write_tokens
  cache_write_tokens bigint NOT NULL DEFAULT 0,
  cost_usd      numeric(18, 8),
  price_source  text NOT NULL,
  prompt_digest text NOT NULL,
  raw_digest    text,
  prompt        text,                            -- bodies only of runs with debug
  raw_text      text,
  error         text,
  PRIMARY KEY (run_id, request_id, attempt, call)
);

CREATE TABLE history.tool_log (
  run_id       uuid NOT NULL,
  execution_id uuid NOT NULL,
  id           uuid NOT NULL,
  project_id   text NOT NULL,
  toolset      text NOT NULL,                    -- of the credential that sent it, not what the line says
  tool         text NOT NULL,
  worker       text NOT NULL,
  at           timestamptz NOT NULL,
  level        text NOT NULL,
  message      text NOT NULL,
  fields       json NOT NULL,
  PRIMARY KEY (run_id, execution_id, id)
);

-- What a day costs (UTC), summed in the transaction that moves the cursors of the runs, so that each answer counts once.
-- `part` is network, caller, agent, model or label; a label is `key=value` as the task had it. The name '' stands for what found
-- no room, and for labels that only runs had which were erased. Days that no answer reaches any more are removed.
CREATE TABLE history.cost (
  project  text NOT NULL,
  part     text NOT NULL CHECK (part IN ('network', 'caller', 'agent', 'model', 'label')),
  day      date NOT NULL,
  name     text NOT NULL,
  runs     bigint NOT NULL,                      -- that began; of agents and models 0, of labels without erased ones
  calls    bigint NOT NULL,                      -- of models
  tokens   bigint NOT NULL,
  usd      numeric(24, 8) NOT NULL,
  unpriced bigint NOT NULL,                      -- answers whose price nobody knew
  PRIMARY KEY (project, part, day, name)
) WITH (fillfactor = 50);
-- Finds the days that are removed. Nothing that is added to a row changes it, so such a change still needs no index.
CREATE INDEX cost_day ON history.cost USING brin (day);

-- How far each run's log is in these tables. `prior_seq` makes a write conditional on what its writer believed. Of a run
-- that was erased the cursor alone stays, behind every event that may still come: nothing is written any more.
CREATE TABLE history.run_cursor (
  run_id    uuid PRIMARY KEY,
  project   text NOT NULL,
  seq       bigint NOT NULL,
  prior_seq bigint NOT NULL,
  erased    boolean NOT NULL DEFAULT false,
  pruned    boolean NOT NULL DEFAULT false       -- erased by retention
) WITH (fillfactor = 50);

CREATE TABLE history.skipped_event (
  run_id     uuid NOT NULL,
  seq        bigint NOT NULL,
  type       text NOT NULL,
  error      text NOT NULL,
  skipped_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run_id, seq)
);

-- Messages that were handled alone: how often the process ended meanwhile, and the mark of the one that is or was at it.
CREATE TABLE history.handling_mark (
  stream   text NOT NULL,
  sequence bigint NOT NULL,
  deaths   integer NOT NULL DEFAULT 0,
  begun_at timestamptz,
  begun_by uuid,
  last     timestamptz NOT NULL,
  PRIMARY KEY (stream, sequence)
);

-- Until when every run that moved is known to be in these tables.
CREATE TABLE history.sweep (
  one   boolean PRIMARY KEY DEFAULT true CHECK (one),
  since timestamptz NOT NULL
);
INSERT INTO history.sweep (since) VALUES ('epoch');

-- Confirmed erasures of runs whose part here is not done, but for *passed_over*; the run log goes first, or it would be
-- read again.
CREATE FUNCTION history.due_erasures(passed_over uuid[]) RETURNS TABLE (erasure_id uuid, run_ids uuid[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT e.erasure_id, e.run_ids FROM tas.erasure e
    WHERE e.status = 'confirmed' AND e.kind IN ('run', 'prune') AND 'runs' = ANY (e.parts) AND 'history' <> ALL (e.parts)
      AND e.erasure_id <> ALL (passed_over)
    ORDER BY e.erasure_id LIMIT 100;
END $$;

-- Erases the history of the runs of a confirmed erasure, at most *at_most* of them; returns how many. The cursors go first:
-- whoever is writing one of these runs is waited for, and writes nothing of it afterwards. Logs have no cursor to wait
-- for, so both of their tables are locked for this moment.
CREATE FUNCTION history.erase_runs(of_erasure uuid, at_most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted record;
  chosen uuid[];
BEGIN
  SELECT * INTO wanted FROM tas.confirmed_erasure(of_erasure);
  IF wanted.kind NOT IN ('run', 'prune') OR 'runs' <> ALL (wanted.parts) OR 'history' = ANY (wanted.parts) THEN
    RETURN 0;
  END IF;
  SELECT coalesce(array_agg(o.run_id), '{}') INTO chosen FROM (
    SELECT k.run_id FROM unnest(wanted.run_ids) k (run_id)
    WHERE NOT EXISTS (SELECT FROM history.run_cursor c WHERE c.run_id = k.run_id AND c.erased)
    ORDER BY k.run_id LIMIT at_most) o;
  INSERT INTO history.run_cursor AS c (run_id, project, seq, prior_seq, erased, pruned)
    SELECT k.run_id, wanted.project, 9223372036854775807, 0, true, wanted.kind = 'prune'
    FROM unnest(chosen) k (run_id) ORDER BY k.run_id
    ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, prior_seq = excluded.prior_seq, erased = true,
      pruned = excluded.pruned;
  LOCK TABLE history.llm_call, history.tool_log IN SHARE ROW EXCLUSIVE MODE;
  -- A label that other runs have keeps its costs, which are sums; the erased ones are no longer counted among its runs, and
  -- once none is left, its name goes. What retention prunes is still counted.
  WITH had AS (
    SELECT left(l.key || '=' || l.value, 256) AS name, (h.created_at AT TIME ZONE 'UTC')::date AS day, count(*) AS runs
    FROM history.agent_execution_history h
    CROSS JOIN jsonb_each_text(CASE jsonb_typeof(h.state_snapshot -> 'labels') WHEN 'object'
      THEN h.state_snapshot -> 'labels' ELSE '{}' END) l
    WHERE h.id = ANY (chosen) AND wanted.kind = 'run' GROUP BY 1, 2),
  less AS (
    UPDATE history.cost c SET runs = greatest(c.runs - h.runs, 0) FROM had h
    WHERE c.project = wanted.project AND c.part = 'label' AND c.day = h.day AND c.name = h.name
    RETURNING c.day, h.runs)
  INSERT INTO history.cost AS c (project, part, day, name, runs, calls, tokens, usd, unpriced)
    SELECT wanted.project, 'label', l.day, '', sum(l.runs), 0, 0, 0, 0 FROM less l GROUP BY l.day ORDER BY l.day
    ON CONFLICT (project, part, day, name) DO UPDATE SET runs = c.runs + excluded.runs;
  WITH had AS (
    SELECT DISTINCT left(l.key || '=' || l.value, 256) AS name FROM history.agent_execution_history h
    CROSS JOIN jsonb_each_text(CASE jsonb_typeof(h.state_snapshot -> 'labels') WHEN 'object'
      THEN h.state_snapshot -> 'labels' ELSE '{}' END) l
    WHERE h.id = ANY (chosen) AND wanted.kind = 'run'),
  gone AS (
    SELECT c.name FROM history.cost c JOIN had USING (name) WHERE c.project = wanted.project AND c.part = 'label'
    GROUP BY c.name HAVING sum(c.runs) = 0),
  erased AS (
    DELETE FROM history.cost c USING gone g WHERE c.project = wanted.project AND c.part = 'label' AND c.name = g.name
    RETURNING c.*)
  INSERT INTO history.cost AS c (project, part, day, name, runs, calls, tokens, usd, unpriced)
    SELECT e.project, e.part, e.day, '', sum(e.runs), sum(e.calls), sum(e.tokens), sum(e.usd), sum(e.unpriced)
    FROM erased e GROUP BY e.project, e.part, e.day ORDER BY e.day
    ON CONFLICT (project, part, day, name) DO UPDATE SET runs = c.runs + excluded.runs, calls = c.calls + excluded.calls,
      tokens = c.tokens + excluded.tokens, usd = c.usd + excluded.usd, unpriced = c.unpriced + excluded.unpriced;
  DELETE FROM history.llm_call l WHERE l.run_id = ANY (chosen);
  DELETE FROM history.tool_log l WHERE l.run_id = ANY (chosen);
  DELETE FROM history.tool_execution t WHERE t.run_id = ANY (chosen);
  DELETE FROM history.skipped_event s WHERE s.run_id = ANY (chosen);
  DELETE FROM history.agent_execution_history h WHERE h.id = ANY (chosen);  -- its steps go with it
  IF cardinality(chosen) < at_most THEN
    PERFORM tas.note_erased_part(of_erasure, 'history');
  END IF;
  RETURN cardinality(chosen);
END $$;
REVOKE EXECUTE ON FUNCTION history.due_erasures, history.erase_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history.due_erasures, history.erase_runs TO towpath_log_writer;

GRANT SELECT, INSERT, UPDATE ON history.agent_execution_history, history.agent_execution_steps, history.tool_execution,
  history.run_cursor, history.cost TO towpath_log_writer;
-- What is only ever added can't be changed; the one row of `sweep` is there already.
GRANT SELECT, INSERT ON history.llm_call, history.tool_log, history.skipped_event TO towpath_log_writer;
GRANT SELECT, INSERT, UPDATE, DELETE ON history.handling_mark TO towpath_log_writer;
GRANT DELETE ON history.cost TO towpath_log_writer;  -- days that are past
GRANT SELECT, UPDATE ON history.sweep TO towpath_log_writer;

-- migrate:down
DROP FUNCTION history.erase_runs, history.due_erasures;
DROP TABLE history.cost, history.handling_mark, history.sweep, history.skipped_event, history.run_cursor, history.tool_log, history.llm_call,
  history.tool_execution, history.agent_execution_steps, history.agent_execution_history;
