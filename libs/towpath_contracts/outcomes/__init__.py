"""The codes that runs, tool calls and models end with, beside the problems with which a request is refused."""
