"""Approvals: what one is bound to, who may vote, what the votes decide."""
