"""Handlers of the watchdog: reads events, looks for runs that stand still, reports facts."""
