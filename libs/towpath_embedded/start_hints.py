"""Whether `up` will probably start: only then the services are imported ahead, which costs a second of processor time.

A hint, and no check: where it is wrong, a start takes longer, or a refusal costs more. Like `fork_client` it imports
nothing of the platform, since it is asked before anything else.
"""

import os
import socket
from collections.abc import Sequence
from typing import Literal

GATEWAY_PORT = 8787
NATS_PORT = 4222
_HIGHEST_PORT = 65_535

_FILES = ("--policy", "--networks", "--mcp")


def starts_probably(words: Sequence[str]) -> bool:
    """Return whether nothing is seen in *words* for which `up` refuses to start, or only explains itself."""
    if words[:1] != ["up"] or {"--help", "-h", "--attach", "--only"} & {*words}:
        return False
    options = _options(words[1:])
    files = [options[name] for name in _FILES if name in options]
    gateway = options.get("--port", str(GATEWAY_PORT))
    nats = options.get("--nats-port", str(nats_port_beside(gateway)))
    ports = [port for port in (gateway, nats) if port != "auto"]
    return (
        not {"--policy", "--profile"} <= options.keys()
        and all(os.path.exists(file) for file in files)  # noqa: PTH110 - that of Path raises where one may not look
        and len({*ports}) == len(ports)
        and all(is_port(port) and is_free(int(port)) for port in ports)
    )


def nats_port_beside(gateway: int | str) -> int | Literal["auto"]:
    """Return NATS's port where none is named: any free one beside a *gateway* at any, for a second platform."""
    return "auto" if gateway == "auto" else NATS_PORT


def is_port(text: str) -> bool:
    """Return whether *text* is the number of a port; `0` is one, too."""
    return text.isdecimal() and len(text) <= len(str(_HIGHEST_PORT)) and int(text) <= _HIGHEST_PORT


def _options(words: Sequence[str]) -> dict[str, str]:
    """Read `--name value` and `--name=value`; one without a value gets the next word, which is no harm."""
    found = {}
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word.startswith("--"):
            name, written, value = word.partition("=")
            found[name] = value if written else following
    return found


def is_free(port: int) -> bool:
    """Return whether *port* can be listened on at the loopback address now."""
    with socket.socket() as listener:
        # As the servers do it, so that connections that linger after a restart don't make the port look taken.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
