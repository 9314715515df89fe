"""Messages about runs: views, records, child runs, runs that stand still."""
