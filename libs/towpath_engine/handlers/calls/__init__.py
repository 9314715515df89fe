"""Tool calls: their order, their outcomes, internal tools, calls that a switch holds back, and the expiry of gates."""
