"""One module per external system: the tables, the condition language, key files, checkpoint receivers."""
