"""Plans and workflows of swarms: starting steps, joining their results, ending."""
