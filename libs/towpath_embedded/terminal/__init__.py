"""What `towpath up` shows after it is ready, and the keys that it takes from a terminal."""
