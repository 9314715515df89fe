"""`towpath policy`, `gates`, `audit`, `switches`, `budgets`: who may do what, who approves it, what it may cost."""
