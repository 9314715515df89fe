"""The watchdog: the second, external monitor of runs: stalls, cycles, similar actions, lost work.

It reports facts and never changes a run by any other way. It keeps nothing, may be killed at any time, and is alone
among the services in that it may be absent without harm.
"""
