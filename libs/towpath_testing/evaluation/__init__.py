"""Evaluation suites: cases of tasks, run in a harness or on a platform, and what is judged of each (`towpath eval`)."""
