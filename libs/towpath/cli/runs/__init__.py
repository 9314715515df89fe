"""`towpath run`, `runs` and `workspace`: submit a task, follow a run, read what is recorded of it."""
