"""The whole platform on one machine: real servers from their wheels, every service as its own process.

Law of this package: it starts, watches and stops processes, and decides nothing about a run. Services are started with
`python -m`, never imported; only the fork server of tests (`forks`) imports them, by name and in a process of its own.
"""
