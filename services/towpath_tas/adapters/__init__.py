"""One file per outside thing: the tables, the condition language, the signing key."""
