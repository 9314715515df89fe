"""Postgres: the pool, named statements, migrations."""
