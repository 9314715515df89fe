"""What stands in files that people write beside networks: the policy, and tests of it."""
