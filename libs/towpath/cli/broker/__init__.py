"""`streams` and `clients`, and the list of who may connect to a deployed broker."""
