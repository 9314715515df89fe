"""The worker runtime: takes invocations of its toolsets, runs what carries a good ticket, reports what came of it.

Law: no ticket, no call; no granted claim, no call that is not pure; no confirmation, no forgetting (design §7).
"""
