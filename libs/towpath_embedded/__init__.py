"""The whole platform on one machine: real servers from their wheels, every service as its own process.

This package starts, watches and stops processes, and decides nothing about a run. Services are started with `python -m`
and never imported; only the fork server imports them, by name and in a process of its own.
"""
