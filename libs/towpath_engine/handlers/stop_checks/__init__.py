"""Reasons to stop that several handlers look at: deadline, loops, watchdog findings, budgets.

The whole order of the checks before a step is `STOP_CHECKS` in `towpath_engine.handlers.steps`.
"""
