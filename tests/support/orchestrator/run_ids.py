"""Run ids that a statement of a test makes, on every version of PostgreSQL that Towpath runs on."""

NEW_RUN_ID = (
    "overlay(gen_random_uuid()::text"
    " PLACING left(runs.uuid_at(clock_timestamp())::text, 13) || '-7' FROM 1 FOR 15)::uuid"
)
"""SQL of the owner: a UUIDv7 of now; uuidv7() came with PostgreSQL 18."""
