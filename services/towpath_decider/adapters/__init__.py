"""The model providers and what they need: one file per outside thing."""
