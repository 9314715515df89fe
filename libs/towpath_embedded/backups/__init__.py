"""Backups of a platform's database, and restores: of the platform on a data folder, or of any database."""
