-- migrate:up
-- The audit as a log that proves itself. An entry is in two halves: `audit_record` is what the log's hashes cover and
-- stays until its segment is dropped; `audit_payload` holds whatever may be personal, can be erased, and is bound to its
-- record by a salted commitment. Readers see both as `audit_entry`. An entry waits in `audit_unsealed` until it gets its
-- leaf, not behind a cursor over ids: so an entry whose transaction commits late is never passed over.
--
-- Comes before the ledger, whose changes write their entries in their own transactions.

-- TABLES

CREATE TABLE tas.audit_record (
  entry_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at             timestamptz NOT NULL DEFAULT clock_timestamp(),
  project        text NOT NULL,
  run_id         uuid,
  execution_id   uuid,
  phase          text NOT NULL,
  verdict        text NOT NULL,
  tool           text NOT NULL,
  operation      text NOT NULL,
  network        text NOT NULL,
  agent_key      text NOT NULL,
  caller         text NOT NULL,
  actor          text NOT NULL,
  rule           text,
  policy_version integer NOT NULL,
  commitment     bytea NOT NULL
);
CREATE INDEX audit_run ON tas.audit_record (run_id, entry_id) WHERE run_id IS NOT NULL;
-- These cost nothing on the way of a call: no other phases are in them.
CREATE INDEX audit_shadow ON tas.audit_record (project, entry_id) WHERE phase = 'shadow';
CREATE INDEX audit_policy ON tas.audit_record (project, policy_version) WHERE phase = 'policy.applied';
CREATE INDEX audit_erasing ON tas.audit_record (project, entry_id)
  WHERE phase IN ('audit.erase_requested', 'audit.erase_confirmed', 'audit.pruned');
CREATE INDEX audit_moved ON tas.audit_record (entry_id)
  WHERE phase IN ('audit.dropped', 'audit.erased', 'audit.erase_confirmed', 'audit.pruned');

CREATE TABLE tas.audit_payload (
  entry_id    bigint PRIMARY KEY,
  salt        bytea NOT NULL,
  args_digest text NOT NULL,
  detail      text NOT NULL
);

-- A queue: small, and read whole. Its dead rows are cleared away early, so that reading it stays cheap.
CREATE TABLE tas.audit_unsealed (entry_id bigint NOT NULL)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE TABLE tas.audit_leaf (
  leaf_index bigint PRIMARY KEY,
  entry_id   bigint NOT NULL UNIQUE,
  hash       bytea NOT NULL
);

-- A checkpoint: the log had `size` leaves and this root. `edge` is all that the tree needs to grow from there.
CREATE TABLE tas.audit_seal (
  seal_id bigint PRIMARY KEY,
  size    bigint NOT NULL,
  root    bytea NOT NULL,
  edge    bytea NOT NULL,
  at      timestamptz NOT NULL,
  note    text NOT NULL
);
CREATE INDEX audit_seal_size ON tas.audit_seal (size);
-- An export from some time on begins at the last checkpoint before it; there may be one a second.
CREATE INDEX audit_seal_at ON tas.audit_seal (at);

CREATE TABLE tas.audit_key (
  public_key text PRIMARY KEY,
  first_used timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What somebody wants erased: by whom, why, and which payloads (what is null matches all), or which run. It is carried out
-- once it is confirmed: by another person, or from `alone_from` on by whoever asked. Of a run, `run_ids` are the runs of
-- its tree when that was asked for, and `parts` the owners of tables that have erased theirs, runs first; `blobs` of runs
-- go apart. Retention prunes runs that ended before `before` in the same way: nobody confirms that, payloads stay, and no run
-- is younger than a week.
CREATE TABLE tas.erasure (
  erasure_id   uuid PRIMARY KEY,
  project      text NOT NULL,
  kind         text NOT NULL DEFAULT 'payloads' CHECK (kind IN ('payloads', 'run', 'prune')),
  run_id       uuid,
  execution_id uuid,
  caller       text,
  before       timestamptz,
  reason       text NOT NULL,
  status       text NOT NULL DEFAULT 'requested' CHECK (status IN ('requested', 'confirmed', 'done', 'withdrawn')),
  requested_by text NOT NULL,
  requested_at timestamptz NOT NULL,
  alone_from   timestamptz NOT NULL,
  decided_by   text NOT NULL DEFAULT '',
  decided_at   timestamptz,
  erased       bigint NOT NULL DEFAULT 0,
  done_at      timestamptz,
  run_ids      uuid[] NOT NULL DEFAULT '{}',
  parts        text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX erasure_project ON tas.erasure (project, uuid_send(erasure_id));
CREATE INDEX erasure_status ON tas.erasure (project, status, uuid_send(erasure_id));
CREATE INDEX erasure_open ON tas.erasure (project, erasure_id) WHERE status IN ('requested', 'confirmed');

CREATE VIEW tas.audit_entry AS
  SELECT r.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation, r.network,
         r.agent_key, r.caller, r.actor, r.rule, r.policy_version, coalesce(p.args_digest, '') AS args_digest,
         coalesce(p.detail, '{}') AS detail, p.entry_id IS NULL AS erased
  FROM tas.audit_record r LEFT JOIN tas.audit_payload p ON p.entry_id = r.entry_id;

-- WRITING

-- With `always` an entry is written whatever becomes of its call; the others only with the call that they belong to.
CREATE TYPE tas.audit_new AS (
  always boolean, project text, run_id uuid, execution_id uuid, phase text, verdict text, tool text, operation text,
  network text, agent_key text, caller text, actor text, rule text, policy_version integer, args_digest text,
  detail text
);

CREATE FUNCTION tas.audit_commitment(salt bytea, args_digest text, detail text) RETURNS bytea LANGUAGE sql STABLE AS $$
  SELECT sha256(salt || convert_to(args_digest || E'\n' || detail, 'UTF8'))
$$;

-- The only way in: record, payload and place in the queue are written together, and the commitment is made here. Salts
-- are digests of a secret that is forgotten: randomness is read once (a system call), and no salt tells of another.
CREATE FUNCTION tas.write_audit(written uuid[], audits tas.audit_new[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  secret bytea := uuid_send(gen_random_uuid());
BEGIN
  IF cardinality(audits) = 0 THEN
    RETURN;
  END IF;
  WITH noted AS MATERIALIZED (
    SELECT nextval('tas.audit_record_entry_id_seq') AS entry_id,
           substr(sha256(secret || int8send(place)), 1, 16) AS salt, a.*
    FROM unnest(audits) WITH ORDINALITY a (always, project, run_id, execution_id, phase, verdict, tool, operation, network,
                                           agent_key, caller, actor, rule, policy_version, args_digest, detail, place)
    WHERE a.always OR a.execution_id = ANY (written)
  ), paid AS (
    INSERT INTO tas.audit_payload (entry_id, salt, args_digest, detail)
      SELECT n.entry_id, n.salt, n.args_digest, n.detail FROM noted n
  ), queued AS (
    INSERT INTO tas.audit_unsealed (entry_id) SELECT n.entry_id FROM noted n
  )
  INSERT INTO tas.audit_record (entry_id, project, run_id, execution_id, phase, verdict, tool, operation, network,
                                agent_key, caller, actor, rule, policy_version, commitment) OVERRIDING SYSTEM VALUE
    SELECT n.entry_id, n.project, n.run_id, n.execution_id, n.phase, n.verdict, n.tool, n.operation, n.network,
           n.agent_key, n.caller, n.actor, n.rule, n.policy_version,
           tas.audit_commitment(n.salt, n.args_digest, n.detail)
    FROM noted n;
END $$;

-- What the log says of itself.
CREATE FUNCTION tas.audit_own_note(of_project text, phase text, by_actor text, detail text) RETURNS tas.audit_new
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  note tas.audit_new;
BEGIN
  note.always := true;
  note.project := of_project;
  note.phase := phase;
  note.verdict := split_part(phase, '.', 2);
  note.tool := '';
  note.operation := '';
  note.network := '';
  note.agent_key := '';
  note.caller := '';
  note.actor := by_actor;
  note.policy_version := 0;
  note.args_digest := '';
  note.detail := detail;
  RETURN note;
END $$;

-- An entry may also be inserted where it is read.
CREATE FUNCTION tas.take_audit_entry() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  note tas.audit_new;
BEGIN
  note := tas.audit_own_note(NEW.project, NEW.phase, NEW.actor, NEW.detail);
  note.run_id := NEW.run_id;
  note.execution_id := NEW.execution_id;
  note.verdict := NEW.verdict;
  note.tool := NEW.tool;
  note.operation := NEW.operation;
  note.network := NEW.network;
  note.agent_key := NEW.agent_key;
  note.caller := NEW.caller;
  note.rule := NEW.rule;
  note.policy_version := NEW.policy_version;
  note.args_digest := NEW.args_digest;
  PERFORM tas.write_audit('{}', ARRAY[note]);
  RETURN NEW;
END $$;
CREATE TRIGGER take_audit_entry INSTEAD OF INSERT ON tas.audit_entry
  FOR EACH ROW EXECUTE FUNCTION tas.take_audit_entry();

-- SEALING

-- In this form (`::text ||`) Postgres takes it into the expression around it: a leaf costs 13 us to seal, not 32.
CREATE FUNCTION tas.audit_field(said text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN said IS NULL THEN E'-\n' ELSE octet_length(said)::text || ':' || said || E'\n' END
$$;

-- What a leaf hashes, as towpath_audit.entries.HiddenEntry says: a digest of every field but the project, and a tag of the
-- project that is salted with it; hashed as RFC 6962 hashes a leaf.
CREATE FUNCTION tas.audit_fields_digest(r tas.audit_record) RETURNS bytea LANGUAGE sql STABLE AS $$
  SELECT sha256(convert_to(
    E'towpath-audit-2\n'
    || tas.audit_field(r.entry_id::text)
    || tas.audit_field(to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    || tas.audit_field(r.run_id::text) || tas.audit_field(r.execution_id::text)
    || tas.audit_field(r.phase) || tas.audit_field(r.verdict) || tas.audit_field(r.tool)
    || tas.audit_field(r.operation) || tas.audit_field(r.network) || tas.audit_field(r.agent_key)
    || tas.audit_field(r.caller) || tas.audit_field(r.actor) || tas.audit_field(r.rule)
    || tas.audit_field(r.policy_version::text) || tas.audit_field(encode(r.commitment, 'hex')), 'UTF8'))
$$;
CREATE FUNCTION tas.audit_leaf_hash(fields_digest bytea, project text) RETURNS bytea LANGUAGE sql STABLE AS $$
  SELECT sha256('\x00'::bytea || convert_to(E'towpath-audit-2\n', 'UTF8') || fields_digest
                || sha256(fields_digest || convert_to(project, 'UTF8')))
$$;

-- Gives every committed entry that waits its leaf, at most *at_most* of them. The oldest ids go first, so an entry never
-- gets its leaf before one that it follows from; among those taken together a call's life is in order.
CREATE FUNCTION tas.take_leaves(at_most integer) RETURNS TABLE (leaf_index bigint, entry_id bigint, hash bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  taken bigint[];
  size bigint := coalesce((SELECT s.size FROM tas.audit_seal s ORDER BY s.seal_id DESC LIMIT 1), 0);
BEGIN
  SELECT array_agg(q.entry_id) INTO taken
    FROM (SELECT u.entry_id FROM tas.audit_unsealed u ORDER BY u.entry_id LIMIT at_most) q;
  IF taken IS NULL THEN
    RETURN;
  END IF;
  DELETE FROM tas.audit_unsealed u WHERE u.entry_id = ANY (taken);
  RETURN QUERY WITH leaves AS MATERIALIZED (
    SELECT size - 1 + row_number() OVER (ORDER BY r.execution_id NULLS FIRST,
             CASE WHEN r.phase = 'decision' THEN 0 WHEN r.phase LIKE 'approval.%' THEN 1 WHEN r.phase = 'claim' THEN 2
                  WHEN r.phase = 'dispatch' THEN 3 WHEN r.phase = 'outcome' THEN 4 ELSE 5 END,
             r.entry_id) AS leaf_index, r.entry_id, tas.audit_leaf_hash(d.fields_digest, r.project) AS hash
    FROM tas.audit_record r CROSS JOIN LATERAL (SELECT tas.audit_fields_digest(r) AS fields_digest OFFSET 0) d
    WHERE r.entry_id = ANY (taken)
  ), stored AS (
    INSERT INTO tas.audit_leaf (leaf_index, entry_id, hash) SELECT l.leaf_index, l.entry_id, l.hash FROM leaves l
  )
  SELECT l.leaf_index, l.entry_id, l.hash FROM leaves l ORDER BY l.leaf_index;
END $$;

-- FORGETTING

-- A confirmed erasure, locked until the commit. A row of the table is not enough: that somebody asked for it and that it
-- was confirmed have to be entries of the log, and name the same, or nothing is erased.
CREATE FUNCTION tas.confirmed_erasure(of_erasure uuid) RETURNS tas.erasure
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted tas.erasure;
BEGIN
  SELECT e.* INTO wanted FROM tas.erasure e WHERE e.erasure_id = of_erasure AND e.status = 'confirmed' FOR UPDATE;
  IF wanted.erasure_id IS NULL THEN
    RAISE EXCEPTION 'nobody confirmed erasure %', of_erasure;
  END IF;
  IF wanted.kind = 'prune' THEN
    IF wanted.before IS NULL OR wanted.before > wanted.requested_at - interval '7 days' OR NOT EXISTS (
         SELECT FROM tas.audit_record r JOIN tas.audit_payload p ON p.entry_id = r.entry_id
         WHERE r.phase = 'audit.pruned' AND r.project = wanted.project AND r.actor = wanted.requested_by
           AND r.at >= wanted.before + interval '7 days' AND p.detail::json->>'erasure_id' = of_erasure::text
           AND (p.detail::json->'what'->>'before')::timestamptz = wanted.before
           AND NOT EXISTS (SELECT unnest(wanted.run_ids)
                           EXCEPT SELECT json_array_elements_text(p.detail::json->'runs')::uuid)) THEN
      RAISE EXCEPTION 'the log does not say that retention prunes the runs of %', of_erasure;
    END IF;
    RETURN wanted;
  END IF;
  IF 2 > (SELECT count(DISTINCT r.phase) FROM tas.audit_record r JOIN tas.audit_payload p ON p.entry_id = r.entry_id
          WHERE r.phase IN ('audit.erase_requested', 'audit.erase_confirmed') AND r.project = wanted.project
            AND r.actor = CASE r.phase WHEN 'audit.erase_requested' THEN wanted.requested_by ELSE wanted.decided_by END
            AND p.detail::json->>'erasure_id' = of_erasure::text AND p.detail::json->>'kind' = wanted.kind
            AND p.detail::json->'what'->>'run_id' IS NOT DISTINCT FROM wanted.run_id::text
            AND p.detail::json->'what'->>'execution_id' IS NOT DISTINCT FROM wanted.execution_id::text
            AND p.detail::json->'what'->>'caller' IS NOT DISTINCT FROM wanted.caller
            AND (p.detail::json->'what'->>'before')::timestamptz IS NOT DISTINCT FROM wanted.before) THEN
    RAISE EXCEPTION 'the log holds no request and confirmation of erasure %', of_erasure;
  END IF;
  IF wanted.kind = 'run' AND EXISTS (
       SELECT FROM unnest(ARRAY['audit.erase_requested', 'audit.erase_confirmed']) said (phase)
       WHERE EXISTS (SELECT unnest(wanted.run_ids) EXCEPT
         SELECT json_array_elements_text(p.detail::json->'runs')::uuid
         FROM tas.audit_record r JOIN tas.audit_payload p ON p.entry_id = r.entry_id
         WHERE r.phase = said.phase AND r.project = wanted.project
           AND p.detail::json->>'erasure_id' = of_erasure::text AND p.detail::json->>'kind' = 'run')) THEN
    RAISE EXCEPTION 'erasure % was asked for or confirmed for other runs', of_erasure;
  END IF;
  RETURN wanted;
END $$;

-- Notes that an owner of tables has erased its part of a run; the erasure is done when all have.
CREATE FUNCTION tas.note_erased_part(of_erasure uuid, part text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE tas.erasure e SET parts = e.parts || part WHERE e.erasure_id = of_erasure AND part <> ALL (e.parts);
  UPDATE tas.erasure e SET status = 'done', done_at = clock_timestamp()
    WHERE e.erasure_id = of_erasure AND e.status = 'confirmed' AND e.parts @> ARRAY['runs', 'blobs', 'history', 'tas'];
END $$;

-- Empties rows of the ledger, at most *at_most*, of the runs *erased*: what was asked, what came of it, and what people
-- were shown and said. Which call it was and how it ended stays. `revision` moves, so no replica writes on top.
-- Where these are the last, fences, counts and marks of a restore go too: no call of an erased run is opened or changed.
CREATE FUNCTION tas.empty_calls(erased uuid[], at_most integer) RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  emptied uuid[];
  calls uuid[];
BEGIN
  WITH chosen AS (
    SELECT t.run_id, t.execution_id FROM tas.tool_call t WHERE t.run_id = ANY (erased) AND t.erased_at IS NULL
    ORDER BY t.run_id, t.execution_id LIMIT at_most FOR UPDATE
  ), changed AS (
    UPDATE tas.tool_call t SET args = '{}', args_digest = '', asked_args = NULL, asked_digest = NULL, context = '{}',
        claims = '[]', fact = NULL, revision = t.revision + 1, erased_at = clock_timestamp()
      FROM chosen c WHERE t.run_id = c.run_id AND t.execution_id = c.execution_id
      RETURNING t.run_id, t.execution_id
  ) SELECT coalesce(array_agg(c.run_id), '{}'), coalesce(array_agg(c.execution_id), '{}') INTO emptied, calls FROM changed c;
  UPDATE tas.approval_vote v SET reason = '', digest = ''
    FROM tas.approval a WHERE a.run_id = ANY (emptied) AND a.execution_id = ANY (calls) AND v.approval_id = a.approval_id;
  UPDATE tas.approval a SET args = '', bound = '', digest = '', reason = '', decided_reason = ''
    WHERE a.run_id = ANY (emptied) AND a.execution_id = ANY (calls);
  DELETE FROM tas.blob_piece b WHERE b.execution_id = ANY (calls);
  IF cardinality(emptied) < at_most THEN
    DELETE FROM tas.rule_count u WHERE u.run_id = ANY (erased);
    DELETE FROM tas.fence f WHERE f.run_id = ANY (erased);
    DELETE FROM tas.restored_run m WHERE m.run_id = ANY (erased);
  END IF;
  RETURN emptied;
END $$;

-- Erases payloads that a confirmed erasure names, at most *at_most* of them, and says so in the log in the same
-- transaction; the erasure is done where fewer are left. Of a run the same, with as many rows of the ledger, once its log
-- is gone. Returns how many are gone. What the log says of itself, of policies and of keys stays. The plan depends on
-- what the erasure names, so it is made anew each time.
CREATE FUNCTION tas.erase_payloads(of_erasure uuid, at_most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  wanted tas.erasure;
  gone bigint[];
  emptied uuid[] := '{}';
BEGIN
  IF at_most NOT BETWEEN 1 AND 5000 THEN
    RAISE EXCEPTION 'at most 5000 payloads are erased at once';
  END IF;
  wanted := tas.confirmed_erasure(of_erasure);
  IF wanted.kind IN ('run', 'prune') THEN
    IF 'runs' <> ALL (wanted.parts) OR 'tas' = ANY (wanted.parts) THEN
      RETURN 0;
    END IF;
    emptied := tas.empty_calls(wanted.run_ids, at_most);
  END IF;
  IF wanted.kind = 'prune' THEN
    IF cardinality(emptied) < at_most THEN
      PERFORM tas.note_erased_part(of_erasure, 'tas');
    END IF;
    RETURN cardinality(emptied);
  END IF;
  WITH chosen AS (
    SELECT r.entry_id FROM tas.audit_record r JOIN tas.audit_payload p ON p.entry_id = r.entry_id
    WHERE r.project = wanted.project AND r.phase NOT LIKE ALL (ARRAY['audit.%', 'key.%', 'policy.%'])
      AND (wanted.run_id IS NULL OR r.run_id = wanted.run_id OR (wanted.kind = 'run' AND r.run_id = ANY (wanted.run_ids)))
      AND (wanted.execution_id IS NULL OR r.execution_id = wanted.execution_id)
      AND (wanted.caller IS NULL OR r.caller = wanted.caller) AND (wanted.before IS NULL OR r.at < wanted.before)
      AND (wanted.kind = 'run' OR r.at < wanted.requested_at)
    ORDER BY r.entry_id LIMIT at_most
  ), deleted AS (
    DELETE FROM tas.audit_payload p USING chosen c WHERE p.entry_id = c.entry_id RETURNING p.entry_id
  ) SELECT coalesce(array_agg(d.entry_id ORDER BY d.entry_id), '{}') INTO gone FROM deleted d;
  IF cardinality(gone) > 0 OR cardinality(emptied) > 0 THEN
    PERFORM tas.write_audit('{}', ARRAY[tas.audit_own_note(wanted.project, 'audit.erased', wanted.decided_by,
      json_build_object('entries', gone, 'reason', wanted.reason, 'erasure_id', of_erasure,
                        'kind', wanted.kind, 'requested_by', wanted.requested_by,
                        'calls_emptied', cardinality(emptied))::text)]);
  END IF;
  IF wanted.kind = 'run' THEN
    UPDATE tas.erasure e SET erased = e.erased + cardinality(gone) WHERE e.erasure_id = of_erasure;
    IF greatest(cardinality(gone), cardinality(emptied)) < at_most THEN
      PERFORM tas.note_erased_part(of_erasure, 'tas');
    END IF;
    RETURN greatest(cardinality(gone), cardinality(emptied));
  END IF;
  UPDATE tas.erasure e SET erased = e.erased + cardinality(gone),
      status = CASE WHEN cardinality(gone) < at_most THEN 'done' ELSE e.status END,
      done_at = CASE WHEN cardinality(gone) < at_most THEN clock_timestamp() END
    WHERE e.erasure_id = of_erasure;
  RETURN cardinality(gone);
END $$;

-- Drops the segments of the log before leaf *cut*: a seal older than a day ends there, and so is every entry, since the
-- time of a seal is what whoever may add seals says. The seal itself stays, with the edge from which the rest of the tree
-- is proved, and the log says what was dropped.
CREATE FUNCTION tas.drop_segments(cut bigint, by_actor text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seal tas.audit_seal;
  dropped bigint;
  began bigint := (SELECT min(l.leaf_index) FROM tas.audit_leaf l);
BEGIN
  SELECT s.* INTO seal FROM tas.audit_seal s WHERE s.size = cut AND s.at < clock_timestamp() - interval '1 day'
    ORDER BY s.seal_id DESC LIMIT 1;
  IF seal.seal_id IS NULL THEN
    RAISE EXCEPTION 'no segment that is older than a day ends at leaf %', cut;
  END IF;
  IF EXISTS (SELECT FROM tas.audit_leaf l JOIN tas.audit_record r ON r.entry_id = l.entry_id
             WHERE l.leaf_index < cut AND r.at >= clock_timestamp() - interval '1 day') THEN
    RAISE EXCEPTION 'entries before leaf % are not older than a day', cut;
  END IF;
  DELETE FROM tas.audit_payload p USING tas.audit_leaf l WHERE l.leaf_index < cut AND p.entry_id = l.entry_id;
  DELETE FROM tas.audit_record r USING tas.audit_leaf l WHERE l.leaf_index < cut AND r.entry_id = l.entry_id;
  DELETE FROM tas.audit_leaf l WHERE l.leaf_index < cut;
  GET DIAGNOSTICS dropped = ROW_COUNT;
  DELETE FROM tas.audit_seal s WHERE s.seal_id < seal.seal_id AND s.size <= cut;
  IF dropped > 0 THEN
    PERFORM tas.write_audit('{}', ARRAY[tas.audit_own_note('', 'audit.dropped', by_actor, json_build_object(
      'from', began, 'to', cut, 'root', encode(seal.root, 'hex'),
      'at', to_char(seal.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'edge', (SELECT coalesce(json_agg(encode(substr(seal.edge, n, 32), 'hex') ORDER BY n), '[]')
               FROM generate_series(1, length(seal.edge), 32) n))::text)]);
  END IF;
  RETURN dropped;
END $$;

-- READING

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
  SELECT min(entry_id), max(entry_id) + 1 INTO low, high FROM tas.audit_record;
  IF low IS NULL THEN
    RETURN 0;
  END IF;
  WHILE low < high LOOP
    middle := (low + high) / 2;
    SELECT e.entry_id, e.at INTO found FROM tas.audit_record e WHERE e.entry_id >= middle ORDER BY e.entry_id LIMIT 1;
    IF found.at < moment THEN
      low := found.entry_id + 1;
    ELSE
      high := middle;
    END IF;
  END LOOP;
  RETURN low;
END $$;

-- Where a run's log asked for calls, and whose run it is: nothing else of the runs is readable here. An instruction names its calls in full, so
-- looking for the id as text finds them, also beside text that json functions refuse.
CREATE FUNCTION tas.asked_in_run(of_run uuid, calls uuid[])
  RETURNS TABLE (execution_id uuid, seq bigint, kept boolean, erased boolean, caller text, project text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.id, (SELECT min(e.seq) FROM runs.run_event e WHERE e.run_id = of_run AND e.type = 'instruction_issued'
                AND position('"' || c.id::text || '"' IN e.event::text) > 0),
         r.run_id IS NOT NULL AND r.erased_at IS NULL, r.erased_at IS NOT NULL, r.caller, r.project
  FROM unnest(calls) AS c (id) LEFT JOIN runs.run r ON r.run_id = of_run
$$;

-- RIGHTS

-- Nobody but `write_audit`, `take_leaves`, `erase_payloads` and `drop_segments` changes the log; they run as its owner.
GRANT SELECT ON tas.audit_record, tas.audit_payload, tas.audit_unsealed, tas.audit_leaf TO towpath_tas;
GRANT SELECT, INSERT ON tas.audit_entry, tas.audit_seal, tas.audit_key TO towpath_tas;
GRANT SELECT, INSERT, UPDATE (status, decided_by, decided_at) ON tas.erasure TO towpath_tas;
REVOKE EXECUTE ON FUNCTION tas.audit_commitment, tas.write_audit, tas.audit_own_note, tas.take_audit_entry,
  tas.audit_field, tas.audit_fields_digest, tas.audit_leaf_hash, tas.take_leaves, tas.confirmed_erasure,
  tas.note_erased_part, tas.empty_calls,  tas.erase_payloads, tas.drop_segments, tas.entry_at, tas.asked_in_run FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tas.write_audit, tas.take_leaves, tas.erase_payloads, tas.drop_segments, tas.entry_at,
  tas.asked_in_run TO towpath_tas;

-- migrate:down
DROP VIEW tas.audit_entry;
DROP FUNCTION tas.asked_in_run, tas.entry_at, tas.drop_segments, tas.erase_payloads, tas.empty_calls, tas.note_erased_part, tas.confirmed_erasure, tas.take_leaves, tas.audit_leaf_hash, tas.audit_fields_digest,
  tas.audit_field, tas.take_audit_entry, tas.audit_own_note, tas.write_audit, tas.audit_commitment;
DROP TYPE tas.audit_new;
DROP TABLE tas.erasure, tas.audit_key, tas.audit_seal, tas.audit_leaf, tas.audit_unsealed, tas.audit_payload, tas.audit_record;
