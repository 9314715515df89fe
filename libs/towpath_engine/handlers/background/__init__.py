"""Background runs: reflection, the final summary and deliverable, and the checks of their own."""
