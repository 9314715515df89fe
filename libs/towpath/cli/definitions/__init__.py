"""`towpath networks`, `plans`, `tools`, `mcp`, and the options of `towpath run` for goals, objectives and plans."""
