"""The worker runtime: takes invocations, runs what carries a good ticket, reports what came of it."""
