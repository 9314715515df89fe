"""Networks as agents of the NATS agent protocol, for clients of the broker."""
