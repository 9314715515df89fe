"""The gateway: the platform's HTTP face.

It authenticates callers, submits their tasks, answers what they ask about runs, networks, gates and tool access, and
streams events. It never decides anything about a run and writes only its own tables: keys, callers and roles.
"""
