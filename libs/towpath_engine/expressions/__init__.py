"""Acceptance criteria as CEL expressions: compiling one, and what makes one too expensive."""
