"""NATS: connections, streams, the pull consumer, logins."""
