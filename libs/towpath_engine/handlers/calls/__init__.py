"""Tool calls: their order, their outcomes, internal tools, and calls that a switch holds back."""
