-- migrate:up
-- What is only ever added can't be changed; the one row of `sweep` is there already.
REVOKE UPDATE ON history.llm_call, history.tool_log, history.skipped_event FROM towpath_log_writer;
REVOKE INSERT ON history.sweep FROM towpath_log_writer;

-- migrate:down
GRANT INSERT ON history.sweep TO towpath_log_writer;
GRANT UPDATE ON history.llm_call, history.tool_log, history.skipped_event TO towpath_log_writer;
