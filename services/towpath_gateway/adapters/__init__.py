"""What the gateway reaches outside of itself: its own tables and the other services."""
