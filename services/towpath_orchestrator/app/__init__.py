"""What the orchestrator does: it reads, asks the engine and the core, commits, sends, answers.

`api` answers requests, `commit` folds facts into transactions, `dispatch` sends what transitions want sent.
"""
