"""The tool-access service (TAS): it decides which tool call may happen, and remembers what became of each one.

It holds the permission matrix, the effect ledger, the approvals bound to single calls, the tickets that workers must
show, the tool registry and the audit log. It never runs a tool itself, and never lets one run on a guess:
what it cannot decide is refused, and what it cannot know goes to a person.
"""
