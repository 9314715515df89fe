"""`python -m towpath_gateway` serves; `create-key` makes the first key; `openapi` prints the OpenAPI document."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from pydantic import ValidationError

    from towpath_contracts.problems.registry import Problem, ProblemError
    from towpath_fabric.nats.replies import problem_from_validation
    from towpath_fabric.startup.process_end import run_process
    from towpath_gateway.adapters.key_store import CreateKeyBody
    from towpath_gateway.app.application import create_app
    from towpath_gateway.core.api_keys import ROLES, SCOPES, key_warnings, scopes_of
    from towpath_gateway.settings import GatewaySettings
    from towpath_gateway.wiring import build_service, create_key


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m towpath_gateway", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("openapi", help="print the OpenAPI document")
    making = commands.add_parser("create-key", help="make an API key and print it once")
    making.add_argument("--project", required=True)
    making.add_argument("--caller", required=True)
    making.add_argument("--scopes", nargs="+", default=[], help=f"default: those of its roles; of {' '.join(SCOPES)}")
    making.add_argument("--roles", nargs="*", default=[], help=f"of {' '.join(ROLES)}, or what policies name")
    making.add_argument("--expires-in-s", type=int, default=None)
    making.add_argument("--note", default="")
    given = parser.parse_args(arguments)
    if given.command == "openapi":
        sys.stdout.write(json.dumps(create_app(None).openapi(), indent=2, sort_keys=True) + "\n")
        return 0
    serve = partial(_create_key, given) if given.command else lambda settings: build_service(settings).run()
    return run_process("gateway", GatewaySettings.load, serve)


def _create_key(given: argparse.Namespace, settings: GatewaySettings) -> int:
    try:
        new = CreateKeyBody(
            caller=given.caller,
            scopes=_listed(given.scopes),
            roles=_listed(given.roles),
            expires_in_s=given.expires_in_s,
            note=given.note,
        )
        key = asyncio.run(create_key(settings, new, given.project))
    except ValidationError as error:
        return _refuse(problem_from_validation(error, "the key"))
    except ProblemError as error:
        return _refuse(error.problem)
    sys.stdout.write(key + "\n")
    for warning in key_warnings(scopes_of(new.scopes, new.roles), new.roles):
        sys.stderr.write(f"warning: {warning}\n")
    return 0


def _listed(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for text in texts for name in text.split(",") if name)


def _refuse(found: Problem) -> int:
    lines = [f"{found.code}: {found.detail}", *(f"  {error.pointer}: {error.detail}" for error in found.errors)]
    sys.stderr.write("\n".join([*lines, found.remedy, ""]))
    return 1


if __name__ == "__main__":
    sys.exit(main())
