"""HTTP as every service speaks it: limits of its connections."""
