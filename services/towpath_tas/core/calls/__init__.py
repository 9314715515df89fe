"""The life of one tool call, from the request to its end."""
