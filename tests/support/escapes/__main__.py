"""`python -m tests.support.escapes FACTS` tries to get out of a sandbox in many ways, and prints what each came to.

It needs the standard library alone, because it runs where there is nothing else. An attempt raises where it was stopped
and returns a text where it reached something of outside. FACTS is a JSON object that tells what there is outside: a
sandbox is not to hold because an attacker guessed wrong.
"""

import importlib
import json
import os
import sys

from tests.support.escapes.attempts import ATTEMPTS


def main() -> None:
    for module in ("files", "processes", "rights", "kernel", "sockets", "grants", "egress"):
        importlib.import_module(f"tests.support.escapes.{module}")
    found = {}
    for name, function in ATTEMPTS.items():
        try:
            found[name] = [True, str(function())]
        except BaseException as error:  # whatever stopped it
            found[name] = [False, f"{type(error).__name__}: {error}"]
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
