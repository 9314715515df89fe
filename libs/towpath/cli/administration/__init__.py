"""Commands that run, check and administer a platform: its processes, database, broker, keys and credentials."""
