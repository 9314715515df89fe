-- name: prepare
-- A run that was really executed is a template: each row of it as JSON, in which every id of the run is a place of a
-- format, and a clone is the same row with ids of its own and later or earlier times.
CREATE SCHEMA crowd;
CREATE TABLE crowd.template_id (template uuid, place bigint, id uuid);
CREATE UNLOGGED TABLE crowd.clone (template uuid, n integer, run_id uuid, shift interval, ids text[]);
CREATE TABLE crowd.template_row (template uuid, source text, place bigint, pattern text);
CREATE UNLOGGED TABLE crowd.entry (place bigint, entry_id bigint, pattern jsonb, shift interval);

CREATE FUNCTION crowd.ids_in(said text) RETURNS SETOF uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT DISTINCT m[1]::uuid FROM regexp_matches(
    said, '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') m
$$;

-- The id of the run comes first; it tells its time, as those of real runs do.
CREATE FUNCTION crowd.with_places(said text, of_template uuid) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  known record;
BEGIN
  said := replace(said, '%', '%%');
  FOR known IN SELECT i.id, i.place FROM crowd.template_id i WHERE i.template = of_template LOOP
    said := replace(said, known.id::text, '%' || known.place || '$s');
  END LOOP;
  RETURN said;
END $$;

CREATE FUNCTION crowd.run_id_at(moment timestamptz, salt text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '7' || substr(md5(salt), 1, 3) || '8'
          || substr(md5(salt), 4, 15))::uuid
$$;

-- name: columns
-- What can be written of a table; generated columns make themselves.
SELECT a.attname AS name, a.atttypid = 'timestamptz'::regtype AS is_time
FROM pg_attribute a WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum

-- name: add_ids
INSERT INTO crowd.template_id (template, place, id)
SELECT $1::uuid, row_number() OVER (ORDER BY found.id <> $1::uuid, found.id), found.id FROM (
  SELECT $1::uuid AS id UNION SELECT i FROM unnest($2::text[]) t (said), crowd.ids_in(t.said) i) found

-- name: add_rows
INSERT INTO crowd.template_row (template, source, place, pattern)
SELECT $1::uuid, $2::text, row_number() OVER (), crowd.with_places(t.said, $1::uuid) FROM unnest($3::text[]) AS t (said)

-- name: add_clones
-- Spread evenly over $4 up to an hour ago, the newest first.
INSERT INTO crowd.clone (template, n, run_id, shift, ids)
SELECT $1::uuid, k.n, k.run_id, k.at - o.created_at, k.run_id::text || ARRAY(
    SELECT md5(i.id::text || k.run_id)::uuid::text FROM crowd.template_id i WHERE i.template = $1::uuid AND i.id <> $1::uuid
    ORDER BY i.place)
FROM runs.run o, LATERAL (
  SELECT g.n, g.at, crowd.run_id_at(g.at, $1::uuid::text || g.n) AS run_id
  FROM (SELECT n, now() - interval '1 hour' - $4::interval * (n - $2)::float8 / $3::float8 AS at
        FROM generate_series($2::integer, $2::integer + $3::integer - 1) AS n) g) k
WHERE o.run_id = $1::uuid

-- name: add_entries
INSERT INTO crowd.entry (place, pattern, shift)
SELECT t.place, format(t.pattern, VARIADIC c.ids)::jsonb, c.shift
FROM crowd.template_row t JOIN crowd.clone c ON c.template = t.template WHERE t.source = 'tas.audit_entry'
ORDER BY c.run_id, t.place

-- name: write_entries
-- The sealer gives them their leaves afterwards, as any others: every entry can be proved.
WITH numbered AS MATERIALIZED (
  SELECT nextval('tas.audit_record_entry_id_seq') AS entry_id, e.pattern || jsonb_build_object(
    'at', (e.pattern->>'at')::timestamptz + e.shift) AS said, substr(sha256(int8send(e.place)), 1, 16) AS salt
  FROM crowd.entry e
), paid AS (
  INSERT INTO tas.audit_payload (entry_id, salt, args_digest, detail)
  SELECT n.entry_id, n.salt, n.said->>'args_digest', n.said->>'detail' FROM numbered n
), queued AS (
  INSERT INTO tas.audit_unsealed (entry_id) SELECT n.entry_id FROM numbered n
)
INSERT INTO tas.audit_record (entry_id, at, project, run_id, execution_id, phase, verdict, tool, operation, network,
  agent_key, caller, actor, rule, policy_version, commitment) OVERRIDING SYSTEM VALUE
SELECT n.entry_id, r.at, r.project, r.run_id, r.execution_id, r.phase, r.verdict, r.tool, r.operation, r.network,
  r.agent_key, r.caller, r.actor, r.rule, r.policy_version,
  tas.audit_commitment(n.salt, n.said->>'args_digest', n.said->>'detail')
FROM numbered n, jsonb_populate_record(NULL::tas.audit_record, n.said) r
