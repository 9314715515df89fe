"""The embedded servers: NATS and Postgres, from their wheels."""
