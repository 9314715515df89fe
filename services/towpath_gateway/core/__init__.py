"""The pure part of the gateway: reading keys, headers and bodies, and writing answers.

Law: no clock, no randomness, no I/O; any input gives a value or a ProblemError.
"""
