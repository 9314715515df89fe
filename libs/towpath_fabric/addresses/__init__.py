"""Addresses of what a process connects to, as text of settings: read and checked before anything connects."""
