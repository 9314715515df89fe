"""Tools: their declaration with `@tool`, the schema and docstring a model sees, and what a call may use."""
