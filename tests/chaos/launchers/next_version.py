"""`python -m tests.chaos.launchers.next_version MODULE`: runs a service as itself or as its next version.

The next version differs in what a rolling upgrade has to bear: its messages carry fields that this version does not
know, and its engine has another version number. A process decides at its start which of the two it is, by whether the
folder of TOWPATH_NEXT_VERSION holds a file of the process's name.
"""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from tests.chaos.launchers.rebind import rebind

VARIABLE = "TOWPATH_NEXT_VERSION"
FIELD = "introduced_next"
SUFFIX = "-next"

_ADDED = b',"introduced_next":{"deep":[null,{"text":"a field that the version before does not know"}]}}'
_EVENT, _WIDER_EVENT = b'"event":{"type"', b'"event":{"introduced_next":1,"type"'


def widened(payload: bytes) -> bytes:
    """Return a message of this version as the next one would send it; what is no message stays as it is."""
    if not payload.startswith(b'{"schema_version":') or not payload.endswith(b"}"):
        return payload
    return payload[:-1].replace(_EVENT, _WIDER_EVENT) + _ADDED


def become_next() -> None:
    """Make this process the next version; before anything of the service runs."""
    import nats.aio.client

    from towpath_engine import ENGINE_VERSION

    rebind({"ENGINE_VERSION": (ENGINE_VERSION, ENGINE_VERSION + SUFFIX)})
    plain = nats.aio.client.Client.publish

    async def publish(self: Any, subject: str, payload: bytes = b"", *more: Any, **options: Any) -> None:
        await plain(self, subject, widened(payload), *more, **options)

    nats.aio.client.Client.publish = publish  # type: ignore[method-assign]  # breaking it open is the point


def main() -> None:
    """Run the module that is named first; the rest of the command line is its own."""
    folder, name = os.environ.get(VARIABLE), os.environ.get("TOWPATH_INSTANCE", "")
    if folder and (Path(folder) / name).exists():
        become_next()
    module = sys.argv[1]
    sys.argv = [module, *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
