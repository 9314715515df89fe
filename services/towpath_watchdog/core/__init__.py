"""The pure parts of the watchdog: what it remembers of a run, how alike two actions are, and what it finds.

events -> run_memory.WatchedRuns -> trace.WatchedRun: the last actions -> findings.findings
|                                                            |  similar_actions, cycle, stalled_progress
+-> a gap: the run log is read                               v
idle runs of the orchestrator -> findings.idle_finding: silent, lost -> WatchdogReported, a fact of the run
"""
