-- migrate:up
-- The run log and everything that belongs to it (design §9). Events and facts are stored as json text: they are written
-- once, read whole and compared byte for byte, so parsing them into jsonb would only cost time.

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
  outcome         json
) WITH (fillfactor = 60);
CREATE INDEX run_wake ON runs.run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX run_queued ON runs.run (priority DESC, run_id) WHERE status = 'queued';
CREATE INDEX run_live ON runs.run (status) WHERE status IN ('running', 'waiting', 'cancelling');
CREATE INDEX run_updated ON runs.run (updated_at);
CREATE INDEX run_project ON runs.run (project, run_id DESC);

CREATE TABLE runs.run_event (
  run_id uuid NOT NULL,
  seq    bigint NOT NULL,
  at     timestamptz NOT NULL,
  type   text NOT NULL,
  event  json NOT NULL,
  PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);

CREATE TABLE runs.run_fact (
  run_id         uuid NOT NULL,
  first_seq      bigint NOT NULL,
  at             timestamptz NOT NULL,
  fact           json NOT NULL,
  engine_version text NOT NULL,
  PRIMARY KEY (run_id, first_seq)
) PARTITION BY RANGE (run_id);

CREATE TABLE runs.run_event_default PARTITION OF runs.run_event DEFAULT;
CREATE TABLE runs.run_fact_default PARTITION OF runs.run_fact DEFAULT;

-- A UUIDv7 begins with 48 bits of milliseconds, so a month is a range of run ids.
CREATE FUNCTION runs.uuid_at(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION runs.ensure_partitions(parent text, months integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  month timestamptz := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
  child text;
BEGIN
  IF parent NOT IN ('runs.run_event', 'runs.run_fact', 'tas.tool_call') THEN
    RAISE EXCEPTION '% is not a partitioned table of Towpath', parent;
  END IF;
  PERFORM pg_advisory_xact_lock(7026114);
  FOR i IN 0..months LOOP
    child := format('%s_%s', parent, to_char(month AT TIME ZONE 'UTC', 'YYYYMM'));
    IF to_regclass(child) IS NULL THEN
      EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', child, parent,
                     runs.uuid_at(month), runs.uuid_at(month + interval '1 month'));
    END IF;
    month := month + interval '1 month';
  END LOOP;
END $$;
SELECT runs.ensure_partitions('runs.run_event', 3), runs.ensure_partitions('runs.run_fact', 3);

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
  verdict       text NOT NULL DEFAULT ''
);
CREATE INDEX gate_open ON runs.gate (project, opened_at) WHERE status = 'pending';
CREATE INDEX gate_run ON runs.gate (run_id);

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

CREATE TABLE runs.blob (
  digest     text PRIMARY KEY,
  data       bytea NOT NULL,
  size       integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE runs.dead_letter (
  dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at             timestamptz NOT NULL DEFAULT now(),
  stream         text NOT NULL,
  subject        text NOT NULL,
  run_id         uuid,
  reason         text NOT NULL,
  body           bytea NOT NULL,
  failures       integer NOT NULL DEFAULT 1
);

CREATE TABLE runs.handling_failure (
  stream   text NOT NULL,
  sequence bigint NOT NULL,
  failures integer NOT NULL,
  last     timestamptz NOT NULL,
  PRIMARY KEY (stream, sequence)
);

GRANT SELECT, INSERT, UPDATE ON runs.run, runs.gate, runs.run_snapshot TO towpath_orchestrator;
GRANT SELECT, INSERT ON runs.run_event, runs.run_fact, runs.snapshot, runs.network_version, runs.blob, runs.dead_letter
  TO towpath_orchestrator;
GRANT SELECT, INSERT, DELETE ON runs.idempotency TO towpath_orchestrator;
GRANT SELECT, INSERT, UPDATE, DELETE ON runs.handling_failure TO towpath_orchestrator, towpath_tas;
GRANT SELECT, INSERT ON runs.blob TO towpath_tas;
GRANT INSERT ON runs.dead_letter TO towpath_tas;
GRANT EXECUTE ON FUNCTION runs.ensure_partitions(text, integer) TO towpath_orchestrator, towpath_tas;

-- migrate:down
DROP TABLE runs.handling_failure, runs.dead_letter, runs.blob, runs.network_version, runs.snapshot, runs.gate,
  runs.idempotency, runs.run_snapshot, runs.run_fact, runs.run_event, runs.run;
DROP FUNCTION runs.ensure_partitions(text, integer);
DROP FUNCTION runs.uuid_at(timestamptz);
