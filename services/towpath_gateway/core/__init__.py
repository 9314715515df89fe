"""The pure part of the gateway: reading keys, headers and bodies, and writing answers.

No clock, no randomness, no I/O; any input gives a value or a ProblemError.
"""
