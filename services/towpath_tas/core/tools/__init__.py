"""The tool registry and the validation of arguments."""
