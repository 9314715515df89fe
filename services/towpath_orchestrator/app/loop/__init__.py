"""The commit loop and what runs beside it: facts in, one transaction, effects out."""
