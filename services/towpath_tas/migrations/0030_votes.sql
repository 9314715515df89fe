-- migrate:up
-- Approvals by several people, and of calls that a person has changed (design §7, approval).
ALTER TABLE tas.approval
  ADD COLUMN args text NOT NULL DEFAULT '',
  ADD COLUMN gate_type text NOT NULL DEFAULT 'approval' CHECK (gate_type IN ('approval', 'manual')),
  ADD COLUMN role text NOT NULL DEFAULT 'approver',
  ADD COLUMN quorum integer NOT NULL DEFAULT 1 CHECK (quorum >= 1),
  ADD COLUMN on_expiry text NOT NULL DEFAULT 'deny' CHECK (on_expiry IN ('deny', 'escalate')),
  ADD COLUMN revisions integer NOT NULL DEFAULT 0,
  ADD COLUMN edited_by text NOT NULL DEFAULT '';

-- A person's word, for good. Nobody says the same twice about one approval.
CREATE TABLE tas.approval_vote (
  approval_id uuid NOT NULL REFERENCES tas.approval (approval_id),
  actor       text NOT NULL,
  verdict     text NOT NULL CHECK (verdict IN ('approved', 'denied', 'edited')),
  reason      text NOT NULL,
  digest      text NOT NULL,
  at          timestamptz NOT NULL,
  PRIMARY KEY (approval_id, actor, verdict)
);

-- `asked_args` and their digest are what the run asks for where `edited_by` has changed the call; then `args` is what runs.
ALTER TABLE tas.tool_call
  ADD COLUMN asked_args text, ADD COLUMN asked_digest text, ADD COLUMN edited_by text;

-- `voter`, `vote` and `vote_at` are the word that this change of an approval takes in, if it takes in one; with `edits` the
-- arguments of the approval become those of its call.
ALTER TYPE tas.approval_new
  ADD ATTRIBUTE args text, ADD ATTRIBUTE gate_type text, ADD ATTRIBUTE role text, ADD ATTRIBUTE quorum integer,
  ADD ATTRIBUTE on_expiry text, ADD ATTRIBUTE revisions integer, ADD ATTRIBUTE edited_by text,
  ADD ATTRIBUTE voter text, ADD ATTRIBUTE vote text, ADD ATTRIBUTE vote_reason text,
  ADD ATTRIBUTE vote_at timestamptz, ADD ATTRIBUTE edits boolean, ADD ATTRIBUTE args_digest text;

CREATE OR REPLACE FUNCTION tas.write_approvals(written uuid[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(approvals) = 0 THEN
    RETURN;
  END IF;
  INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,
                            requested_by, expires_at, decided_by, decided_at, decided_reason, args, gate_type, role,
                            quorum, on_expiry, revisions, edited_by)
    SELECT a.approval_id, a.run_id, a.execution_id, a.project, a.status, a.digest, a.bound, a.rule, a.reason,
           a.requested_by, a.expires_at, a.decided_by, a.decided_at, a.decided_reason, a.args, a.gate_type, a.role,
           a.quorum, a.on_expiry, a.revisions, a.edited_by
    FROM unnest(approvals) a WHERE a.execution_id = ANY (written)
    ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by,
      decided_at = excluded.decided_at, decided_reason = excluded.decided_reason;
  INSERT INTO tas.approval_vote (approval_id, actor, verdict, reason, digest, at)
    SELECT a.approval_id, a.voter, a.vote, a.vote_reason, a.digest, a.vote_at
    FROM unnest(approvals) a WHERE a.execution_id = ANY (written) AND a.voter IS NOT NULL;
  UPDATE tas.tool_call t SET
      args = a.args, args_digest = a.args_digest, edited_by = a.edited_by,
      asked_args = coalesce(t.asked_args, t.args), asked_digest = coalesce(t.asked_digest, t.args_digest)
    FROM unnest(write_approvals.approvals) a
    WHERE a.edits AND a.execution_id = ANY (written) AND t.run_id = a.run_id AND t.execution_id = a.execution_id;
END $$;

GRANT SELECT, INSERT ON tas.approval_vote TO towpath_tas;
GRANT USAGE ON SCHEMA tas TO towpath_orchestrator;
GRANT SELECT ON tas.approval_vote TO towpath_orchestrator;

-- migrate:down
CREATE OR REPLACE FUNCTION tas.write_approvals(written uuid[], approvals tas.approval_new[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF cardinality(approvals) > 0 THEN
    INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,
                              requested_by, expires_at, decided_by, decided_at, decided_reason)
      SELECT a.* FROM unnest(approvals) a WHERE a.execution_id = ANY (written)
      ON CONFLICT (approval_id) DO UPDATE SET status = excluded.status, decided_by = excluded.decided_by,
        decided_at = excluded.decided_at, decided_reason = excluded.decided_reason;
  END IF;
END $$;
ALTER TYPE tas.approval_new
  DROP ATTRIBUTE args, DROP ATTRIBUTE gate_type, DROP ATTRIBUTE role, DROP ATTRIBUTE quorum, DROP ATTRIBUTE on_expiry,
  DROP ATTRIBUTE revisions, DROP ATTRIBUTE edited_by, DROP ATTRIBUTE voter, DROP ATTRIBUTE vote,
  DROP ATTRIBUTE vote_reason, DROP ATTRIBUTE vote_at, DROP ATTRIBUTE edits, DROP ATTRIBUTE args_digest;
ALTER TABLE tas.tool_call DROP COLUMN asked_args, DROP COLUMN asked_digest, DROP COLUMN edited_by;
REVOKE USAGE ON SCHEMA tas FROM towpath_orchestrator;
DROP TABLE tas.approval_vote;
ALTER TABLE tas.approval DROP COLUMN args, DROP COLUMN gate_type, DROP COLUMN role, DROP COLUMN quorum,
  DROP COLUMN on_expiry, DROP COLUMN revisions, DROP COLUMN edited_by;
