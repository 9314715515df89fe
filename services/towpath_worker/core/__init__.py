"""Pure parts of the worker: results and failures as the wire takes them."""
