"""The registry of problems: every refusal has a stable code, a title, a status and a remedy."""
