"""What two services must agree on: messages, subjects, streams, problems.

Law of this package: it does no I/O, reads no clock, draws no randomness and depends on pydantic alone. A field is added
with a default and never renamed; a reader one release behind must survive.
"""
