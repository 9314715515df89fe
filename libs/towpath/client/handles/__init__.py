"""Ways to a platform on top of the client: `run`, and clients for programs without asyncio."""
