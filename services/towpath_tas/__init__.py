"""The tool-access service (TAS): decides which tool calls may run, and records what became of each one.

It owns the permission matrix, the call ledger, the approvals of single calls, the tickets that workers must show, the
tool registry and the audit log. It never runs a tool, and never allows one on a guess: what it can't decide is denied,
and an outcome that it can't know is referred to a person.
"""
