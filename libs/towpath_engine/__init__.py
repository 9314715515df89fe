"""The run machine: a pure core that decides what a fact changes in a run.

    fact ──▶ advance ──▶ events ──▶ evolve ──▶ state        (and effects: messages to send once it is committed)

Nothing in this package does I/O, reads a clock, draws randomness, logs or reads settings. Times and ids come in with
the fact, limits are in the state, and the result is data. So the same facts always give the same log, which is how a
run is replayed, and the same log always gives the same state, which is how a run survives a crash.

Layers, each of which imports only those after it: `replay`, `replay_diff` and `publish`; `advance`; `handlers` (one
function per fact, by topic); `requests` (messages to the outside); `rules` (questions with one answer); `evolve`;
`reducers` (one function per event); `state`; `expressions`.
"""

ENGINE_VERSION = "12"
"""Stored with every fact; raised whenever the same facts could give other events."""
