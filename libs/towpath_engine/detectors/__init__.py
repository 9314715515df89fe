"""Loop detectors (design §5, features B8 and C5, behaviours 002.2): pure functions over the counters of the state.

`signatures` says what counts as the same, `counting` folds what happened into the counters, `ladder` says what is done
about a loop that was found. `towpath_engine.loops` does it.
"""
