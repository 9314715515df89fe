"""A folder with agents, tools and a policy: the files that people write, and their schemas for editors."""
