"""The tool registry and the check of arguments."""
