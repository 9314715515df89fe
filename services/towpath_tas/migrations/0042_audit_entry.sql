-- migrate:up
-- An entry may also be inserted where it is read: replicas of the version before do so while an upgrade rolls.
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
REVOKE EXECUTE ON FUNCTION tas.take_audit_entry FROM PUBLIC;
GRANT INSERT ON tas.audit_entry TO towpath_tas;

-- migrate:down
REVOKE INSERT ON tas.audit_entry FROM towpath_tas;
DROP TRIGGER take_audit_entry ON tas.audit_entry;
DROP FUNCTION tas.take_audit_entry;
