"""What people read of a run, made from its log: transcript, nodes, goals, plans, effects, spans, streams. Pure."""
