"""Builds the objects of one replica: those on the path of a call, and apart from them those of the audit log."""
