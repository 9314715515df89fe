"""A run, or a tree of runs, as a stream: entries in order, pieces of text while a model writes them."""
