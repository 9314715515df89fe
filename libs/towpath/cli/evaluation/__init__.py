"""`towpath test` and `towpath eval`: what agents do, tried before people rely on it."""
