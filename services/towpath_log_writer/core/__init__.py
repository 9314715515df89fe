"""The pure parts of the log-writer: putting events in order, and projecting them into rows.

events of a run -> sequence.continue_from -> a segment without a gap -> projection.project -> HistoryChanges
|                                                    |
+-> a gap: the run log is read (lagging_runs)        +-> an event that can't be read is set aside
"""
