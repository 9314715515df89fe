"""What leaves the run machine: decision requests with their context, tool requests, other effects."""
