"""The reasons to stop that every step checks: deadline, loops, watchdog findings, budgets."""
