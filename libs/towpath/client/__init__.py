"""The client: one set of methods, over HTTP to the gateway or over NATS to the orchestrator.

A client keeps nothing that matters. Whatever it was doing can be taken up again with a run id and a seq.
"""

from towpath.client.client import Client

__all__ = ["Client"]
