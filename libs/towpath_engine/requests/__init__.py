"""Messages that leave the run machine: decision requests with their context, tool requests, other effects."""
