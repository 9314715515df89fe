"""How loops are counted: what counts as the same, how often it came, and what a fork or a child takes over."""
