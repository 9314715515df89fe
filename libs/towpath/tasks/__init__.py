"""What a run is asked to do: goals, objectives, plans, mounted folders, typed answers, and `run` itself."""
