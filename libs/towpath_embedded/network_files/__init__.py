"""Networks and scripts in files, published again when they are saved."""
