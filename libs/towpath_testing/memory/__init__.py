"""What stands for Postgres and the broker: sessions over the tables, subjects and queues."""
