"""One file per outside thing: the run tables, the network tables."""
