"""How each problem comes about, and an example of it: the message as the platform prints it, and what mends it."""
