-- migrate:up
-- The run log and everything that belongs to it. Events, facts and states are stored as json text: they are written once,
-- read whole and compared byte for byte, so parsing them into jsonb would only cost time.

-- RUNS

-- One row per run: what lists show and what the loop looks for. The truth is the log below; this row is written with it.
--
-- Every transition updates it. Such an update writes no index (it is heap-only) where its page has room and no indexed
-- column changes: so `seq`, `wake_at` and `updated_at` are in no index. Active runs (`running`, `cancelling`), whose
-- number admission bounds, are found by their status; the others, of which there may be any number and which rarely
-- change, by the copies of the two times at the end.
CREATE TABLE runs.run (
  run_id          uuid PRIMARY KEY,
  project         text NOT NULL,
  kind            text NOT NULL,
  network         text NOT NULL,
  version         integer NOT NULL,
  snapshot_digest text NOT NULL,
  status          text NOT NULL,
  reason          text NOT NULL DEFAULT '',
  seq             bigint NOT NULL,
  fence           integer NOT NULL DEFAULT 0,
  wake_at         timestamptz,
  caller          text NOT NULL,
  priority        smallint NOT NULL DEFAULT 5,
  agent_key       text NOT NULL DEFAULT '',
  step            integer NOT NULL DEFAULT 0,
  max_steps       integer NOT NULL DEFAULT 0,
  user_message    text NOT NULL DEFAULT '',
  labels          jsonb NOT NULL DEFAULT '{}',
  debug           boolean NOT NULL DEFAULT false,
  created_at      timestamptz NOT NULL,
  started_at      timestamptz,
  ended_at        timestamptz,
  updated_at      timestamptz NOT NULL,
  outcome         json,
  calls           jsonb NOT NULL DEFAULT '{}',   -- how many were asked for, allowed, denied, held
  parent_run_id   uuid,                          -- these two are NULL for a run that a caller submitted
  root_run_id     uuid,
  depth           smallint NOT NULL DEFAULT 0,
  queue_at        timestamptz,                   -- NULL for children
  trace_id        uuid,                          -- of the caller; NULL where the run on top of the tree is the trace
  continues       uuid,                          -- the run before it in its thread, and the first run of that; both
  thread_id       uuid,                          -- are NULL where a run continues none
  erased_at       timestamptz,                   -- since then only ids, times, numbers, kind, status and caller are left
  pruned          boolean NOT NULL DEFAULT false, -- erased by retention
  inactive_wake_at timestamptz GENERATED ALWAYS AS (
    CASE WHEN status NOT IN ('running', 'cancelling') THEN wake_at END) STORED,
  inactive_updated_at timestamptz GENERATED ALWAYS AS (
    CASE WHEN status NOT IN ('running', 'cancelling') THEN updated_at END) STORED
) WITH (fillfactor = 60);
CREATE INDEX run_live ON runs.run (status, project) WHERE status IN ('running', 'waiting', 'cancelling');
CREATE INDEX run_wake ON runs.run (inactive_wake_at) WHERE inactive_wake_at IS NOT NULL;
CREATE INDEX run_updated ON runs.run (inactive_updated_at) WHERE inactive_updated_at IS NOT NULL;
-- In the order of run_id, which is written otherwise so that lists of a project or a status are read here and nowhere else: by
-- run_id itself the planner would look through the runs of all projects.
CREATE INDEX run_project ON runs.run (project, uuid_send(run_id) DESC);
-- Oldest first, what retention may take: runs with which a tree or a thread begins. Pruned ones are passed over.
CREATE INDEX run_oldest ON runs.run (project, run_id)
  WHERE parent_run_id IS NULL AND continues IS NULL AND erased_at IS NULL;
CREATE INDEX run_status ON runs.run (project, status, uuid_send(run_id) DESC);

-- The place in a caller's queue for a network: when the run came, less so many seconds for each step of its priority.
-- That order doesn't change while a run waits, so it is an index. Children have no place: they come first, in the order
-- in which they were started.
CREATE INDEX run_turn ON runs.run (caller, network, queue_at NULLS FIRST, run_id) WHERE status = 'queued';

-- Children are listed by their parent, and the runs of a tree by its root; runs without a parent are in none of these.
CREATE INDEX run_root ON runs.run (root_run_id, run_id DESC) WHERE root_run_id IS NOT NULL;
CREATE INDEX run_parent ON runs.run (parent_run_id, run_id DESC) WHERE parent_run_id IS NOT NULL;

-- A run is continued once, so that a thread is a line; after an erasure it may be continued anew. Neither index has runs
-- that continue none.
CREATE UNIQUE INDEX run_continued ON runs.run (continues) WHERE continues IS NOT NULL AND erased_at IS NULL;
CREATE INDEX run_thread ON runs.run (thread_id, run_id DESC) WHERE thread_id IS NOT NULL;

-- Which runs wait for children: those take no place among the runs that are admitted.
CREATE INDEX run_alive ON runs.run (parent_run_id)
  WHERE parent_run_id IS NOT NULL AND status IN ('queued', 'running', 'waiting', 'cancelling');

-- Quarantined runs may still have calls that run, so a stop looks for them too. Both columns are indexed already, so that
-- no change of a run costs more; and such runs are few.
CREATE INDEX run_quarantined ON runs.run (project, run_id) WHERE status = 'quarantined';

-- THE LOG

CREATE TABLE runs.run_event (
  run_id uuid NOT NULL,
  seq    bigint NOT NULL,
  at     timestamptz NOT NULL,
  type   text NOT NULL,
  event  json NOT NULL,
  PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);

-- What came from outside and made the events from `first_seq` on: replaying it must give the same events.
CREATE TABLE runs.run_fact (
  run_id         uuid NOT NULL,
  first_seq      bigint NOT NULL,
  at             timestamptz NOT NULL,
  fact           json NOT NULL,
  engine_version text NOT NULL,
  PRIMARY KEY (run_id, first_seq)
) PARTITION BY RANGE (run_id);

-- What other agents and internal tools have answered a run, and which agents it has asked: few events, which tool access
-- looks for (tas.answers_of_run, by the same condition). Events are written as compact JSON by one writer, and are not
-- taken apart here: json may hold what Postgres can't read (\u0000). What merely looks so is sorted out by the reader.
CREATE INDEX run_answer ON runs.run_event (run_id, seq) WHERE type IN ('child_started', 'child_ended', 'note_given')
  OR type = 'tool_call_finished' AND position('"worker":"platform"' IN event::text) > 0;

CREATE TABLE runs.run_event_default PARTITION OF runs.run_event DEFAULT;
CREATE TABLE runs.run_fact_default PARTITION OF runs.run_fact DEFAULT;

-- A UUIDv7 begins with 48 bits of milliseconds, so a month is a range of run ids.
CREATE FUNCTION runs.uuid_at(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION runs.ensure_partitions(parent text, months integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  month timestamptz := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
  child text;
BEGIN
  IF parent NOT IN ('runs.run_event', 'runs.run_fact', 'tas.tool_call') THEN
    RAISE EXCEPTION '% is not a partitioned table of Towpath', parent;
  END IF;
  PERFORM pg_advisory_xact_lock(7026114);
  IF months NOT BETWEEN 0 AND 24 THEN
    RAISE EXCEPTION 'partitions are made for at most 24 months ahead';
  END IF;
  FOR i IN 0..months LOOP
    child := format('%s_%s', parent, to_char(month AT TIME ZONE 'UTC', 'YYYYMM'));
    IF to_regclass(child) IS NULL THEN
      -- Rows of a month that no partition was for are in the default one, where they would forbid the new partition:
      -- they move there first. Rows of calls are updated and grow, and need room in their page; others never change.
      EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL) WITH (fillfactor = %s)', child, parent,
                     CASE parent WHEN 'tas.tool_call' THEN 50 ELSE 100 END);
      EXECUTE format('WITH moved AS (DELETE FROM %s_default WHERE run_id >= %L AND run_id < %L RETURNING *)
                      INSERT INTO %s SELECT * FROM moved',
                     parent, runs.uuid_at(month), runs.uuid_at(month + interval '1 month'), child);
      EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', parent, child,
                     runs.uuid_at(month), runs.uuid_at(month + interval '1 month'));
    END IF;
    month := month + interval '1 month';
  END LOOP;
END $$;
SELECT runs.ensure_partitions('runs.run_event', 3), runs.ensure_partitions('runs.run_fact', 3);

-- Months whose runs were all pruned or erased give their files back. A partition that a vacuum has not yet made small is
-- left for the next look: whether it is empty could take long to see. Whoever writes meanwhile waits for 0.2 s at most.
CREATE FUNCTION runs.drop_empty_partitions(parent text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
  before text := parent || '_' || to_char((now() - interval '1 month') AT TIME ZONE 'UTC', 'YYYYMM');
  child regclass;
  is_filled boolean;
BEGIN
  IF parent NOT IN ('runs.run_event', 'runs.run_fact') THEN
    RAISE EXCEPTION '% keeps its rows for ever, or is not a partitioned table of Towpath', parent;
  END IF;
  FOR child IN
    SELECT inhrelid::regclass FROM pg_inherits
    WHERE inhparent = parent::regclass AND inhrelid::regclass::text ~ '_[0-9]{6}$' AND inhrelid::regclass::text < before
      AND pg_relation_size(inhrelid) < 8 * 1024 * 1024
    ORDER BY inhrelid::regclass::text
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child) INTO is_filled;
    CONTINUE WHEN is_filled;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', parent);
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', child) INTO is_filled;
    CONTINUE WHEN is_filled;
    EXECUTE format('DROP TABLE %s', child);
  END LOOP;
EXCEPTION WHEN lock_not_available THEN
  RAISE DEBUG 'runs are being written; empty partitions of % are dropped at the next look', parent;
END $$;

-- A cache of the log: the state after `seq`, good for one engine version.
CREATE TABLE runs.run_snapshot (
  run_id         uuid PRIMARY KEY,
  seq            bigint NOT NULL,
  engine_version text NOT NULL,
  state          json NOT NULL
);

CREATE TABLE runs.idempotency (
  project        text NOT NULL,
  caller         text NOT NULL,
  key            text NOT NULL,
  request_digest text NOT NULL,
  run_id         uuid NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (project, caller, key)
);
CREATE INDEX idempotency_age ON runs.idempotency (created_at);

-- NETWORKS AND BLOBS

CREATE TABLE runs.snapshot (
  digest   text PRIMARY KEY,
  snapshot json NOT NULL
);

CREATE TABLE runs.network_version (
  project      text NOT NULL,
  name         text NOT NULL,
  version      integer NOT NULL,
  digest       text NOT NULL REFERENCES runs.snapshot (digest),
  spec         json NOT NULL,
  published_at timestamptz NOT NULL,
  published_by text NOT NULL,
  PRIMARY KEY (project, name, version)
);

-- A blob belongs to a project like everything else: equal bytes in two projects are two rows. `used_at` is when somebody
-- stored the same bytes last: whose log may not name them yet. `is_named`: the log of a run or the ledger has named it; else
-- none has until `unnamed_until`. Blobs are read in pieces, so they are not compressed: a piece of compressed bytes is
-- found by unpacking all before it.
CREATE TABLE runs.blob (
  digest     text NOT NULL,
  data       bytea STORAGE EXTERNAL NOT NULL,
  size       integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  project    text NOT NULL,
  used_at    timestamptz NOT NULL DEFAULT now(),
  is_named   boolean NOT NULL DEFAULT false,
  unnamed_until timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, digest)
);
CREATE INDEX blob_size ON runs.blob (project) INCLUDE (size);
CREATE INDEX blob_unnamed ON runs.blob (project, unnamed_until) WHERE NOT is_named;

-- Blobs that erased runs named: each goes once its turn comes, unless another run names it.
CREATE TABLE runs.blob_to_erase (
  erasure_id uuid NOT NULL,
  digest     text NOT NULL,
  PRIMARY KEY (erasure_id, digest)
);

-- GATES AND THEIR NOTICES

CREATE TABLE runs.gate (
  gate_id       uuid PRIMARY KEY,
  run_id        uuid NOT NULL,
  project       text NOT NULL,
  network       text NOT NULL,
  gate_type     text NOT NULL,
  status        text NOT NULL,
  reason        text NOT NULL,
  detail        json NOT NULL,
  execution_id  uuid,
  approval_id   uuid,
  opened_at     timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,
  closed_at     timestamptz,
  closed_by     text NOT NULL DEFAULT '',
  closed_reason text NOT NULL DEFAULT '',
  verdict       text NOT NULL DEFAULT '',
  noticed       text NOT NULL DEFAULT '',        -- the status of the gate that notices were last made of
  tool          text NOT NULL DEFAULT '',        -- of detail, which Postgres can't take apart where it holds NUL
  rule          text NOT NULL DEFAULT '',
  assigned_to   text NOT NULL DEFAULT '',        -- whom somebody has handed it to, which gives nobody a right
  assigned_by   text NOT NULL DEFAULT '',
  assigned_reason text NOT NULL DEFAULT '',
  assigned_at   timestamptz
);
CREATE INDEX gate_status ON runs.gate (project, status, opened_at, gate_id);
CREATE INDEX gate_pending ON runs.gate (gate_type, opened_at) WHERE status = 'pending';
CREATE INDEX gate_opened ON runs.gate (project, opened_at, gate_id);
CREATE INDEX gate_run ON runs.gate (run_id);
CREATE INDEX gate_closed ON runs.gate (project, closed_at, gate_id) WHERE status <> 'pending';
CREATE INDEX gate_alike ON runs.gate (project, tool, rule, closed_at, gate_id) WHERE status <> 'pending';
CREATE INDEX gate_unnoticed ON runs.gate (opened_at)
  WHERE noticed = '' OR (noticed = 'pending' AND status <> 'pending');

-- What a webhook is told of a gate, and how that went.
CREATE TABLE runs.notice (
  notice_id  uuid PRIMARY KEY,
  webhook    text NOT NULL,
  gate_id    uuid NOT NULL,
  project    text NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('gate.opened', 'gate.closed')),
  body       text NOT NULL,
  status     text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'dead', 'obsolete')),
  tries      integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at   timestamptz,
  error      text NOT NULL DEFAULT ''
);
CREATE INDEX notice_due ON runs.notice (webhook, due_at) WHERE status = 'pending';
CREATE INDEX notice_ended ON runs.notice (ended_at) WHERE status <> 'pending';
CREATE INDEX notice_project ON runs.notice (project, created_at);
CREATE INDEX notice_status ON runs.notice (project, status, (created_at AT TIME ZONE 'UTC'));

-- MESSAGES THAT NOBODY COULD HANDLE

-- `failures`: times that handling a message failed. `deaths`: times that the process ended while it handled the message
-- alone. `begun_at` and `begun_by`: the mark of the process that handles it alone now, or did when it ended.
CREATE TABLE runs.handling_failure (
  stream   text NOT NULL,
  sequence bigint NOT NULL,
  failures integer NOT NULL,
  deaths   integer NOT NULL DEFAULT 0,
  begun_at timestamptz,
  begun_by uuid,
  last     timestamptz NOT NULL,
  PRIMARY KEY (stream, sequence)
);

-- A dead letter is settled once, by a person: sent again or thrown away. It is one row however often its message came.
-- Letters are bounded: open ones of a stream and project are counted before one is added, old ones are deleted, and of
-- those that others report only the beginning is kept (`cut`). The project is written here, as the run says it, so that
-- a letter stays that project's when the run is gone.
CREATE TABLE runs.dead_letter (
  dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at             timestamptz NOT NULL DEFAULT now(),
  stream         text NOT NULL,
  subject        text NOT NULL,
  run_id         uuid,
  reason         text NOT NULL,
  body           bytea NOT NULL,
  failures       integer NOT NULL DEFAULT 1,
  project        text,
  effect_id      uuid,
  delivery       bigint,
  status         text NOT NULL DEFAULT 'dead',
  settled_at     timestamptz,
  settled_by     text NOT NULL DEFAULT '',
  settled_reason text NOT NULL DEFAULT '',
  cut            boolean NOT NULL DEFAULT false,
  UNIQUE (stream, delivery)
);
CREATE INDEX dead_letter_open ON runs.dead_letter (dead_letter_id) WHERE status = 'dead';
CREATE INDEX dead_letter_room ON runs.dead_letter (stream, (coalesce(project, ''))) WHERE status = 'dead';
-- Letters of a project, and of one status. Letters without a project are listed beside them.
CREATE INDEX dead_letter_project ON runs.dead_letter ((coalesce(project, '')), dead_letter_id);
CREATE INDEX dead_letter_status ON runs.dead_letter ((coalesce(project, '')), status, (-dead_letter_id));
CREATE INDEX dead_letter_run ON runs.dead_letter (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX dead_letter_effect ON runs.dead_letter (effect_id) WHERE effect_id IS NOT NULL;

-- BUDGETS

-- What people limit. The version beside it tells replicas that something moved.
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
  version bigint NOT NULL,
  quotas  bigint NOT NULL DEFAULT 0
);
INSERT INTO runs.budget_version (version) VALUES (0);

-- How many runs a project may have under way, and begin on one UTC day; `runs` have begun on `day`. Tool calls are counted by
-- the tool-access service, where they are let through. Whoever accepts tasks
-- of a project with a quota holds its row until they are committed, so that replicas together keep to it. The version
-- beside that of budgets, `quotas`, tells replicas which projects have one.
CREATE TABLE runs.project_quota (
  project         text PRIMARY KEY,
  unfinished_runs bigint,
  runs_per_day    bigint,
  tool_calls_per_minute bigint CHECK (tool_calls_per_minute > 0),
  stored_bytes    bigint,
  day             date NOT NULL DEFAULT '1970-01-01',
  runs            bigint NOT NULL DEFAULT 0,
  set_by          text NOT NULL,
  set_at          timestamptz NOT NULL,
  reason          text NOT NULL DEFAULT ''
) WITH (fillfactor = 70);

-- What a project has stored: the bytes of its runs' events, which replicas add up in memory and add here every few seconds,
-- and those of its blobs, which are measured where there is a limit, by one replica each minute: `measured_at`. Erased runs
-- are taken off again.
CREATE TABLE runs.project_storage (
  project     text PRIMARY KEY,
  event_bytes bigint NOT NULL DEFAULT 0,
  blob_bytes  bigint NOT NULL DEFAULT 0,
  measured_at timestamptz
) WITH (fillfactor = 70);

-- An account is opened when the first run spends from it, and counts every unit, limited or not. Its limits are copies of
-- what people set, so that one statement locks, checks and changes it.
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
-- Accounts of days, whose keys begin with the day, and of the agents in a run, whose keys are `run/agent`. Spending changes no
-- key, and so writes no index.
CREATE INDEX budget_days ON runs.budget (key) WHERE scope = 'day';
CREATE INDEX budget_agents ON runs.budget (project, split_part(key, '/', 1)) WHERE scope = 'agent';

-- ERASING
-- What a run said is erased by its owners, each in transactions of its own, once the log of the audit has the erasure as
-- asked for and confirmed (tas.confirmed_erasure). The roles have no right to delete these rows otherwise.

-- A run with every run below it and behind it in its thread, which begin with what it said, and the one that started it
-- (`above`): whether it may be erased is decided by its statuses.
CREATE FUNCTION runs.tree_to_erase(of_run uuid, at_most integer)
  RETURNS TABLE (run_id uuid, project text, status text, erased boolean, above boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE tree AS (
    SELECT r.run_id, r.project, r.status, r.erased_at, r.parent_run_id, 0 AS below FROM runs.run r WHERE r.run_id = of_run
    UNION ALL
    SELECT c.run_id, c.project, c.status, c.erased_at, c.parent_run_id, t.below + 1
    FROM runs.run c JOIN tree t ON c.parent_run_id = t.run_id OR (c.continues = t.run_id AND c.erased_at IS NULL)
  )
  (SELECT t.run_id, t.project, t.status, t.erased_at IS NOT NULL, false FROM tree t ORDER BY t.below LIMIT at_most)
  UNION ALL
  SELECT p.run_id, p.project, p.status, p.erased_at IS NOT NULL, true
  FROM tree t JOIN runs.run p ON p.run_id = t.parent_run_id WHERE t.run_id = of_run
$$;

-- Confirmed erasures of runs whose parts here are not done, but for *passed_over*; first those of which rows are left, with
-- the runs of these of which messages may be left: of what is pruned the last one went days ago.
CREATE FUNCTION runs.due_erasures(passed_over uuid[]) RETURNS TABLE (erasure_id uuid, run_ids uuid[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT e.erasure_id, ARRAY(
      SELECT r.run_id FROM runs.run r WHERE r.run_id = ANY (e.run_ids) AND r.erased_at IS NULL AND e.kind = 'run')
    FROM tas.erasure e
    WHERE e.status = 'confirmed' AND e.kind IN ('run', 'prune') AND NOT e.parts @> ARRAY['runs', 'blobs']
      AND e.erasure_id <> ALL (passed_over)
    ORDER BY 'runs' = ANY (e.parts), e.erasure_id LIMIT 100;
END $$;

-- Whether the erasure of a run is confirmed: nothing begins from it any more. Asked of that run, however many others wait.
CREATE FUNCTION runs.is_to_be_erased(of_project text, of_run uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tas.erasure e
    WHERE e.project = of_project AND e.status = 'confirmed' AND e.kind IN ('run', 'prune') AND of_run = ANY (e.run_ids));
END $$;

-- Whether somebody has stored the same bytes again lately: the log of another run may be about to name them.
CREATE FUNCTION runs.is_stored_again(blob runs.blob) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT blob.used_at > blob.created_at AND blob.used_at > now() - interval '1 hour'
$$;

-- Of these digests those that a dead letter of the project names which somebody may still send again, or just has. A letter
-- that nobody could read is of any project; its bytes may be anything.
CREATE FUNCTION runs.named_in_letters(of_project text, digests text[]) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(DISTINCT n.digest), '{}') FROM (
    SELECT 'sha256:' || left(cut.part, 64) AS digest FROM runs.dead_letter d
      CROSS JOIN LATERAL string_to_table(encode(d.body, 'escape'), 'sha256:') AS cut (part)
    WHERE coalesce(d.project, '') IN (of_project, '') AND (d.status = 'dead' OR d.settled_at > now() - interval '1 day')) n
  WHERE n.digest = ANY (digests)
$$;

-- Deletes the blobs of an erasure that no other run of the project names. One that was stored again lately, before the
-- erasure was decided, waits; what somebody has stored since then is theirs, and what a dead letter names is another run's: both
-- go as any other that nothing names (see `find_unused_blobs`). Else an erasure would never end where the same bytes are stored again and again. The logs of the
-- project are read only for blobs that may go (cut at the sign of a digest, since a regular expression takes many
-- times as long), and nothing is locked meanwhile: whoever stores one of them then moves its `used_at`, which is looked at
-- again. Returns how many wait; -1 where another replica is at it.
CREATE FUNCTION runs.delete_unnamed_blobs(of_erasure uuid, of_project text, decided_at timestamptz, erased uuid[])
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = on SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  began timestamptz := clock_timestamp();
  candidates text[];
  named text[] := '{}';
  in_letters text[];
  waiting integer;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7026115, hashtext(of_erasure::text)) THEN
    RETURN -1;
  END IF;
  SELECT coalesce(array_agg(b.digest), '{}') INTO candidates FROM runs.blob_to_erase w
    JOIN runs.blob b ON b.project = of_project AND b.digest = w.digest
    WHERE w.erasure_id = of_erasure AND NOT (runs.is_stored_again(b) AND b.used_at <= decided_at);
  IF cardinality(candidates) > 0 THEN
    SELECT coalesce(array_agg(DISTINCT found.digest), '{}') INTO named FROM (
      SELECT 'sha256:' || left(cut.part, 64) AS digest FROM runs.run o JOIN runs.run_event e ON e.run_id = o.run_id
        CROSS JOIN LATERAL string_to_table(e.event::text, 'sha256:') AS cut (part)
      WHERE o.project = of_project AND o.erased_at IS NULL AND o.run_id <> ALL (erased)
      UNION ALL
      SELECT 'sha256:' || left(cut.part, 64) FROM tas.tool_call c
        CROSS JOIN LATERAL string_to_table(c.context || coalesce(c.fact, ''), 'sha256:') AS cut (part)
      WHERE c.project = of_project AND c.run_id <> ALL (erased)) found
    WHERE found.digest = ANY (candidates);
    in_letters := runs.named_in_letters(of_project, candidates);
    PERFORM FROM runs.blob b WHERE b.project = of_project AND b.digest = ANY (candidates) AND b.digest <> ALL (named)
      ORDER BY b.digest FOR UPDATE;
    DELETE FROM runs.blob b WHERE b.project = of_project AND b.digest = ANY (candidates) AND b.digest <> ALL (named)
      AND b.digest <> ALL (in_letters) AND b.used_at <= decided_at AND NOT runs.is_stored_again(b);
    UPDATE runs.blob b SET is_named = false, unnamed_until = began
      WHERE b.project = of_project AND b.digest = ANY (candidates) AND b.digest <> ALL (named);
  END IF;
  -- A writer that began before the decision, and ended while the logs were read, keeps its bytes for the hour, too.
  DELETE FROM runs.blob_to_erase w WHERE w.erasure_id = of_erasure AND (
    (w.digest = ANY (candidates) AND NOT EXISTS (SELECT FROM runs.blob b WHERE b.project = of_project AND b.digest = w.digest
      AND b.digest <> ALL (named) AND b.used_at <= decided_at AND runs.is_stored_again(b)))
    OR NOT EXISTS (SELECT FROM runs.blob b WHERE b.project = of_project AND b.digest = w.digest));
  SELECT count(*) INTO waiting FROM runs.blob_to_erase w WHERE w.erasure_id = of_erasure;
  RETURN waiting;
END $$;

-- Erases at most *at_most* runs of a confirmed erasure, and then the blobs that only they named; returns how many, and
-- *at_most* where more is left to do. -1: not now, since blobs of it were stored again a moment ago. The row of a run
-- stays, so that its id is never used again; its `seq` moves, so that no state which a replica still holds is stored on
-- top. The erasure itself is locked while rows go, and not while blobs are looked for.
CREATE FUNCTION runs.erase_runs(of_erasure uuid, at_most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted record;
  chosen uuid[];
BEGIN
  SELECT * INTO wanted FROM tas.erasure e WHERE e.erasure_id = of_erasure AND e.status = 'confirmed'
    AND e.kind IN ('run', 'prune');
  IF 'runs' = ANY (wanted.parts) THEN
    IF 'blobs' = ANY (wanted.parts) THEN
      RETURN 0;
    END IF;
    IF runs.delete_unnamed_blobs(of_erasure, wanted.project, wanted.decided_at, wanted.run_ids) <> 0 THEN
      RETURN -1;
    END IF;
    PERFORM tas.note_erased_part(of_erasure, 'blobs');
    RETURN 0;
  END IF;
  SELECT * INTO wanted FROM tas.confirmed_erasure(of_erasure);
  IF wanted.kind NOT IN ('run', 'prune') OR 'runs' = ANY (wanted.parts) THEN
    RETURN 0;
  END IF;
  SELECT coalesce(array_agg(o.run_id), '{}') INTO chosen FROM (
    SELECT r.run_id FROM runs.run r
    WHERE r.run_id = ANY (wanted.run_ids) AND r.project = wanted.project AND r.erased_at IS NULL AND r.ended_at IS NOT NULL
      AND (wanted.kind = 'run' OR r.ended_at < wanted.before)
    ORDER BY r.run_id LIMIT at_most FOR UPDATE) o;
  INSERT INTO runs.blob_to_erase (erasure_id, digest) SELECT DISTINCT of_erasure, b.digest FROM (
      SELECT e.event::text AS said FROM runs.run_event e WHERE e.run_id = ANY (chosen)
      UNION ALL SELECT f.fact::text FROM runs.run_fact f WHERE f.run_id = ANY (chosen)
      UNION ALL SELECT s.state::text FROM runs.run_snapshot s WHERE s.run_id = ANY (chosen)
      UNION ALL SELECT c.context || coalesce(c.fact, '') FROM tas.tool_call c WHERE c.run_id = ANY (chosen)) texts
    CROSS JOIN LATERAL string_to_table(texts.said, 'sha256:') AS cut (part)
    JOIN runs.blob b ON b.project = wanted.project AND b.digest = 'sha256:' || left(cut.part, 64)
    ON CONFLICT DO NOTHING;
  UPDATE runs.project_storage s SET event_bytes = greatest(0, s.event_bytes - (
      SELECT coalesce(sum(octet_length(e.event::text)), 0) FROM runs.run_event e WHERE e.run_id = ANY (chosen)))
    WHERE s.project = wanted.project;
  DELETE FROM runs.run_event e WHERE e.run_id = ANY (chosen);
  DELETE FROM runs.run_fact f WHERE f.run_id = ANY (chosen);
  DELETE FROM runs.run_snapshot s WHERE s.run_id = ANY (chosen);
  DELETE FROM runs.notice n USING runs.gate g WHERE g.run_id = ANY (chosen) AND n.gate_id = g.gate_id;
  DELETE FROM runs.gate g WHERE g.run_id = ANY (chosen);
  -- A letter whose run could not be read is this run's where its body has the id. Anybody can write an id into a message:
  -- letters of other projects stay.
  DELETE FROM runs.dead_letter d WHERE d.run_id = ANY (chosen) AND (d.project = wanted.project OR d.project IS NULL);
  DELETE FROM runs.dead_letter d
    WHERE d.run_id IS NULL AND (d.project = wanted.project OR d.project IS NULL) AND EXISTS (
      SELECT FROM unnest(chosen) k (run_id) WHERE position(convert_to(k.run_id::text, 'UTF8') IN d.body) > 0);
  UPDATE runs.run r SET seq = r.seq + 1, reason = '', agent_key = '', user_message = '', labels = '{}', outcome = NULL,
      wake_at = NULL, erased_at = clock_timestamp(), pruned = wanted.kind = 'prune'
    WHERE r.run_id = ANY (chosen);
  IF wanted.kind = 'prune' THEN
    -- A thread may have gone on between the choice of what is pruned and its being confirmed. The rest of it begins with
    -- the run that stays: behind one that is gone, no family would ever have it.
    UPDATE runs.run r SET thread_id = h.run_id FROM runs.run h
      WHERE h.continues = ANY (chosen) AND h.erased_at IS NULL AND h.run_id <> ALL (wanted.run_ids)
        AND r.thread_id = h.thread_id AND r.run_id > h.run_id;
    UPDATE runs.run h SET continues = NULL, thread_id = NULL
      WHERE h.continues = ANY (chosen) AND h.erased_at IS NULL AND h.run_id <> ALL (wanted.run_ids);
    DELETE FROM runs.budget b WHERE b.project = wanted.project AND b.scope = 'run' AND b.key = ANY (chosen::text[]);
    DELETE FROM runs.budget b WHERE b.project = wanted.project AND b.scope = 'agent'
      AND split_part(b.key, '/', 1) = ANY (chosen::text[]);
  END IF;
  IF cardinality(chosen) < at_most THEN
    PERFORM tas.note_erased_part(of_erasure, 'runs');
    IF EXISTS (SELECT FROM runs.blob_to_erase w WHERE w.erasure_id = of_erasure) THEN
      RETURN at_most;
    END IF;
    PERFORM tas.note_erased_part(of_erasure, 'blobs');
  END IF;
  RETURN cardinality(chosen);
END $$;

-- PAST DAYS

-- Nobody reads what was spent of a past day's limit. An account of which something is reserved stays until it is settled.
-- Accounts of runs, callers and projects hold what is spent: the service itself deletes none.
CREATE FUNCTION runs.forget_past_days() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM runs.budget b WHERE b.ctid = ANY (ARRAY(
    SELECT d.ctid FROM runs.budget d
    WHERE d.scope = 'day' AND d.key < to_char((now() - interval '93 days') AT TIME ZONE 'UTC', 'YYYY-MM-DD')
      AND (d.usd_micros_reserved, d.tokens_reserved, d.model_calls_reserved, d.tool_calls_reserved) = (0, 0, 0, 0)
    ORDER BY d.key LIMIT 5000 FOR UPDATE SKIP LOCKED))
$$;

-- UNUSED BLOBS
-- A blob is stored before what names it, and whoever is about to name one moves its `used_at` first. So one that nothing
-- has named within a week of that was stored for a task, a step or a result that never came.

-- Of the *at_most* blobs that no run has named for longest as far as is known, for a day or longer: notes which are named by
-- what was written since then, and returns how many it has looked at, and the others that nobody has used for a week and no
-- dead letter names, which may be sent again. Names are looked for in runs that are under
-- way, or moved since then (a day more for a writer that was held up), and of the ledger also where a call got its outcome
-- without its run. Nothing is locked meanwhile. Empty where another replica looks.
CREATE FUNCTION runs.find_unused_blobs(of_project text, at_most integer, OUT looked_at integer, OUT unused text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  began timestamptz := clock_timestamp();
  since timestamptz;
  candidates text[];
  found text[];
BEGIN
  looked_at := 0;
  unused := '{}';
  IF NOT pg_try_advisory_xact_lock(7026119, hashtext(of_project)) THEN
    RETURN;
  END IF;
  SELECT array_agg(b.digest), min(b.unnamed_until) - interval '1 day' INTO candidates, since FROM (
    SELECT o.digest, o.unnamed_until FROM runs.blob o
    WHERE o.project = of_project AND NOT o.is_named AND o.unnamed_until < began - interval '1 day'
    ORDER BY o.unnamed_until LIMIT at_most) b;
  IF candidates IS NULL THEN
    RETURN;
  END IF;
  looked_at := cardinality(candidates);
  WITH moved AS MATERIALIZED (
    SELECT r.run_id FROM runs.run r WHERE r.project = of_project AND r.status IN ('running', 'waiting', 'cancelling')
    UNION
    SELECT r.run_id FROM runs.run r WHERE r.project = of_project AND r.inactive_updated_at >= since
    UNION
    SELECT a.run_id FROM tas.audit_record a WHERE a.entry_id >= tas.entry_at(since) AND a.project = of_project
      AND a.phase IN ('outcome', 'settled')
  )
  SELECT coalesce(array_agg(DISTINCT n.digest), '{}') INTO found FROM (
    SELECT 'sha256:' || left(cut.part, 64) AS digest FROM moved l
      JOIN runs.run_event e ON e.run_id = l.run_id AND e.at >= since
      CROSS JOIN LATERAL string_to_table(e.event::text, 'sha256:') AS cut (part)
    UNION ALL
    SELECT 'sha256:' || left(cut.part, 64) FROM moved l
      JOIN tas.tool_call c ON c.run_id = l.run_id AND c.updated_at >= since
      CROSS JOIN LATERAL string_to_table(c.context || coalesce(c.fact, ''), 'sha256:') AS cut (part)) n
  WHERE n.digest = ANY (candidates);
  UPDATE runs.blob b SET is_named = true WHERE b.project = of_project AND b.digest = ANY (found);
  WITH noted AS (
    UPDATE runs.blob b SET unnamed_until = began
    WHERE b.project = of_project AND b.digest = ANY (candidates) AND b.digest <> ALL (found) RETURNING b.digest, b.used_at
  ) SELECT coalesce(array_agg(n.digest), '{}') INTO unused FROM noted n WHERE n.used_at <= began - interval '7 days';
  IF cardinality(unused) > 0 THEN
    found := runs.named_in_letters(of_project, unused);
    unused := ARRAY(SELECT u.digest FROM unnest(unused) u (digest) WHERE u.digest <> ALL (found));
  END IF;
END $$;

-- Deletes of these blobs those that were found to be unused, unless somebody has used one since.
CREATE FUNCTION runs.delete_unused_blobs(of_project text, digests text[]) RETURNS TABLE (blobs bigint, bytes bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH gone AS (
    DELETE FROM runs.blob b
    WHERE b.project = of_project AND b.digest = ANY (digests) AND NOT b.is_named
      AND b.unnamed_until >= b.used_at + interval '7 days'
    RETURNING b.size
  ) SELECT count(*), coalesce(sum(g.size), 0)::bigint FROM gone g
$$;

-- PRUNING
-- Retention prunes whole families: a run that nobody started and that continues none, the threads that go on from it, and all
-- runs below these. Of the oldest families behind one, and that began before a time: their runs, and what keeps each here
-- (an open gate or a call that is not settled; and when the last of its calls was). Those that are being pruned are left out.
CREATE FUNCTION runs.oldest_families(of_project text, ended_before timestamptz, behind uuid, at_most integer)
  RETURNS TABLE (family uuid, run_id uuid, project text, network text, top boolean, status text, ended_at timestamptz,
                 erased boolean, held boolean, settled_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY WITH heads AS MATERIALIZED (
    SELECT h.run_id FROM runs.run h
    WHERE h.project = of_project AND h.parent_run_id IS NULL AND h.continues IS NULL AND h.erased_at IS NULL
      AND h.run_id > behind AND h.run_id < runs.uuid_at(ended_before)
      AND NOT EXISTS (SELECT FROM tas.erasure e WHERE e.project = of_project AND e.status = 'confirmed'
                      AND e.kind = 'prune' AND h.run_id = ANY (e.run_ids))
    ORDER BY h.run_id LIMIT at_most
  ), tops AS (
    SELECT h.run_id AS family, h.run_id FROM heads h
    UNION ALL
    SELECT h.run_id, t.run_id FROM heads h JOIN runs.run t ON t.thread_id = h.run_id
  ), members AS (
    SELECT t.family, true AS top, r.* FROM tops t JOIN runs.run r ON r.run_id = t.run_id
    UNION ALL
    SELECT t.family, false, r.* FROM tops t JOIN runs.run r ON r.root_run_id = t.run_id
  )
  SELECT m.family, m.run_id, m.project, m.network, m.top, m.status, m.ended_at, m.erased_at IS NOT NULL,
    EXISTS (SELECT FROM runs.gate g WHERE g.run_id = m.run_id AND g.status = 'pending')
      OR coalesce(s.is_open, false), s.settled_at
  FROM members m LEFT JOIN LATERAL (
    SELECT bool_or(c.status IN ('requested', 'awaiting_approval', 'permitted', 'started', 'unknown')) AS is_open,
      max(c.updated_at) AS settled_at
    FROM tas.tool_call c WHERE c.run_id = m.run_id AND c.erased_at IS NULL) s ON true
  ORDER BY m.family, m.run_id;
END $$;

-- What is stored of these runs and goes with them, in bytes as they lie on the disk: their large columns, read without being
-- unpacked, and 100 bytes for the rest of each row and its place in an index. Blobs, which others may name, don't count.
CREATE FUNCTION runs.stored_bytes_of(of_runs uuid[]) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  found numeric;
BEGIN
  SELECT sum(t.bytes + 100) INTO found FROM (
    SELECT pg_column_size(e.event) FROM runs.run_event e WHERE e.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(f.fact) FROM runs.run_fact f WHERE f.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(s.state) FROM runs.run_snapshot s WHERE s.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(r.user_message) + coalesce(pg_column_size(r.outcome), 0)
      FROM runs.run r WHERE r.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(c.args) + pg_column_size(c.context) + coalesce(pg_column_size(c.fact), 0)
      FROM tas.tool_call c WHERE c.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(h.state_snapshot) FROM history.agent_execution_history h WHERE h.id = ANY (of_runs)
    UNION ALL SELECT coalesce(pg_column_size(p.action), 0) + coalesce(pg_column_size(p.result), 0)
        + coalesce(pg_column_size(p.decisions), 0) + coalesce(pg_column_size(p.reasoning), 0)
      FROM history.agent_execution_steps p WHERE p.execution_id = ANY (of_runs)
    UNION ALL SELECT coalesce(pg_column_size(x.args), 0) + coalesce(pg_column_size(x.result), 0)
      FROM history.tool_execution x WHERE x.run_id = ANY (of_runs)
    UNION ALL SELECT coalesce(pg_column_size(l.prompt), 0) + coalesce(pg_column_size(l.raw_text), 0)
      FROM history.llm_call l WHERE l.run_id = ANY (of_runs)
    UNION ALL SELECT pg_column_size(g.message) + pg_column_size(g.fields)
      FROM history.tool_log g WHERE g.run_id = ANY (of_runs)) t (bytes);
  RETURN coalesce(found, 0);
END $$;

-- RIGHTS

GRANT SELECT, INSERT, UPDATE ON runs.run, runs.gate, runs.run_snapshot, runs.budget, runs.project_storage
  TO towpath_orchestrator;
GRANT SELECT, INSERT ON runs.run_event, runs.run_fact, runs.snapshot, runs.network_version, runs.blob
  TO towpath_orchestrator;
GRANT SELECT, INSERT, DELETE ON runs.idempotency, runs.dead_letter TO towpath_orchestrator;
GRANT UPDATE (status, settled_at, settled_by, settled_reason) ON runs.dead_letter TO towpath_orchestrator;
GRANT SELECT, INSERT, UPDATE, DELETE ON runs.notice, runs.budget_limit, runs.project_quota
  TO towpath_orchestrator;
GRANT SELECT, UPDATE ON runs.budget_version TO towpath_orchestrator;
GRANT UPDATE (used_at) ON runs.blob TO towpath_orchestrator, towpath_tas;

-- The tool-access service counts failures and keeps letters of its own streams here, and sends those letters again.
GRANT SELECT, INSERT, UPDATE, DELETE ON runs.handling_failure TO towpath_orchestrator, towpath_tas;
GRANT SELECT, INSERT ON runs.blob, runs.dead_letter TO towpath_tas;
-- It looks for running calls in the runs that live, not in its whole ledger: an index of calls by status would be written
-- with every change of a call, for the sake of a stop that is rare. A denial names the agents that have the right.
GRANT SELECT (run_id, project, status, erased_at) ON runs.run TO towpath_tas;
GRANT SELECT (digest, snapshot) ON runs.snapshot TO towpath_tas;
-- It counts a project's tool calls of a minute in the statement that lets them through.
GRANT SELECT (project, tool_calls_per_minute) ON runs.project_quota TO towpath_tas;

-- PostgreSQL lets everybody run a new function.
REVOKE EXECUTE ON FUNCTION runs.ensure_partitions(text, integer), runs.drop_empty_partitions(text),
  runs.uuid_at(timestamptz), runs.tree_to_erase, runs.due_erasures, runs.is_to_be_erased, runs.is_stored_again, runs.named_in_letters, runs.delete_unnamed_blobs, runs.erase_runs,
  runs.forget_past_days, runs.find_unused_blobs, runs.delete_unused_blobs, runs.oldest_families,
  runs.stored_bytes_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION runs.ensure_partitions(text, integer) TO towpath_orchestrator, towpath_tas;
GRANT EXECUTE ON FUNCTION runs.tree_to_erase, runs.oldest_families, runs.stored_bytes_of TO towpath_tas;
GRANT EXECUTE ON FUNCTION runs.drop_empty_partitions(text) TO towpath_orchestrator;
GRANT EXECUTE ON FUNCTION runs.due_erasures, runs.is_to_be_erased, runs.erase_runs, runs.forget_past_days,
  runs.find_unused_blobs, runs.delete_unused_blobs TO towpath_orchestrator;

-- migrate:down
DROP FUNCTION runs.stored_bytes_of, runs.oldest_families, runs.find_unused_blobs, runs.delete_unused_blobs, runs.forget_past_days, runs.erase_runs, runs.delete_unnamed_blobs, runs.named_in_letters, runs.is_stored_again, runs.is_to_be_erased,
  runs.due_erasures, runs.tree_to_erase;
DROP TABLE runs.project_storage, runs.project_quota, runs.budget, runs.budget_version, runs.budget_limit, runs.dead_letter, runs.handling_failure, runs.notice,
  runs.gate, runs.blob_to_erase, runs.blob, runs.network_version, runs.snapshot, runs.idempotency, runs.run_snapshot, runs.run_fact,
  runs.run_event, runs.run;
DROP FUNCTION runs.drop_empty_partitions(text), runs.ensure_partitions(text, integer), runs.uuid_at(timestamptz);
