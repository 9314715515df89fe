"""The worker runtime: takes invocations, runs those with a valid ticket, reports the outcome."""
