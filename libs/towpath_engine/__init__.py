"""The run machine: what a fact makes of a run.

Law of this package: no I/O, no clock, no randomness, no logging, no settings. Time and ids come in with the fact,
limits are in the state, and the result is data. `advance` decides, `evolve` remembers, and folding the events of a
run always gives the same state.
"""

ENGINE_VERSION = "5"
"""Stored with every fact; raised whenever the same facts could give other events."""
