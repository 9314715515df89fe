"""`python -m towpath_embedded up|servers`: reads the arguments, and nothing else."""

import atexit
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while this imports ends it, without a traceback

from towpath_embedded.processes import fork_client
from towpath_embedded.start_hints import GATEWAY_PORT, nats_port_beside, starts_probably
from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()
if __name__ == "__main__" and starts_probably(sys.argv[1:]):
    fork_client.server()  # it imports the services, which is most of a start, while this process imports its own part

from towpath.cli.administration.platform_start import is_told
from towpath.cli.shared.progress import progress_of_imports

_IS_WATCHED = __name__ == "__main__" and sys.argv[1:2] == ["up"] and is_told(sys.argv[2:])

with paused(), progress_of_imports("Importing the platform", shown=_IS_WATCHED):
    from cyclopts import App, Parameter

    from towpath.cli.shared.usage_errors import usage_panel
    from towpath_embedded.start_checks import UpOptions
    from towpath_embedded.up import up

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DEFAULT_DATA = Path(".towpath")

Port = int | Literal["auto"]


def _number(port: Port) -> int | None:
    return None if port == "auto" else port


_UP_EXAMPLES = """Examples:
  towpath up
  towpath up --networks networks --policy policies.yaml --worker tools/orders.py
  towpath up --ephemeral --port auto --sample
  towpath up --attach
  towpath up --only gateway,worker --port auto"""

app = App(
    name="towpath",
    help="The whole platform on one machine.",
    help_format="plaintext",
    error_formatter=usage_panel,
)


@app.command(name="up", help_epilogue=_UP_EXAMPLES)
def up_command(
    *,
    data: Path = DEFAULT_DATA,
    port: Port = GATEWAY_PORT,
    nats_port: Port | None = None,
    ephemeral: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Literal["json"] | None, Parameter(name=("--output", "-o"))] = None,
    logs: Annotated[bool, Parameter(negative="")] = False,
    worker: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    policy: Path | None = None,
    profile: Literal["open", "balanced", "strict"] | None = None,
    networks: Path | None = None,
    mcp: Path | None = None,
    agent: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    sandbox: Literal["required", "preferred", "none"] = "none",
    single_person: Annotated[bool, Parameter(negative="")] = False,
    sample: Annotated[bool, Parameter(negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
    attach: Annotated[bool, Parameter(negative="")] = False,
    only: str = "",
) -> int:
    """Start NATS, Postgres and every service, and keep them running until Ctrl-C.

    Args:
        data: The folder that keeps everything between runs.
        port: The gateway's port, or auto for any free one: that of this folder's last start, where nobody has it.
        nats_port: The NATS server's port, or auto; where it is not given 4222, or auto beside --port auto.
        ephemeral: Throw everything away at the end.
        json: Print one JSON object with all addresses when ready.
        output: The same.
        logs: Show the logs of all processes here.
        worker: Modules or files with tools (dotted name or path/to/file.py), run in one worker with the built-in tools.
        policy: The permission matrix as YAML; applied at start and whenever the file changes.
        profile: A policy that comes with the platform, instead of a file of your own; see docs/policies.md.
        networks: A folder with network files; published at start and whenever one changes.
        mcp: A file of MCP servers (YAML), whose tools a worker of its own offers; see docs/mcp.md.
        agent: Agents in user code (module:Class or path/to/file.py:Class), each in a process of its own; see
            docs/agents.md.
        sandbox: Whether programs of tools, and MCP servers, run in a sandbox where nothing else is said; see
            docs/tools.md.
        single_person: Let who submits a run approve its calls: there is nobody else. Each such approval is marked in
            the audit.
        sample: Bring a help desk to try, with its tools, policy and network: one run that is finished, one that waits
            for you. Its policy is put in force for all that is in the data folder, and whoever submits a run may
            approve its calls, as with --single-person.
        strict: End with exit code 2, and all that is wrong, where a file of the policy, of networks, scripts or tools
            is refused; nothing is started then, unless only a platform can tell.
        attach: Start nothing: show what happens on the platform that runs in this folder already. Ctrl-C leaves it
            running.
        only: Start these services alone, with commas between: gateway, orchestrator, decider, tas, worker, log_writer,
            watchdog. They use the servers of TOWPATH_NATS_URL and TOWPATH_DATABASE_URL, or else those that run on the
            data folder. Networks are not published.
    """
    return up(
        UpOptions(
            data=data, gateway_port=_number(port),
            nats_port=_number(nats_port_beside(port) if nats_port is None else nats_port),
            ephemeral=ephemeral, as_json=json or output is not None, logs=logs,
            workers=worker, policy=policy, profile=profile or "", networks=networks, mcp=mcp, agents=agent,
            sandbox=sandbox, single_person=single_person or sample, sample=sample, strict=strict,
            attach=attach, only=only,
        )
    )  # fmt: skip


@app.command(name="servers")
def servers_command(
    *,
    data: Path = DEFAULT_DATA,
    nats_port: Port = "auto",
    ephemeral: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Start only NATS and Postgres, migrated and with all streams: for development and measurements.

    Parameters
    ----------
    data
        The folder that keeps everything between runs.
    nats_port
        The NATS server's port, or auto for any free one.
    ephemeral
        Throw everything away at the end.
    json
        Print one JSON object with all addresses when ready.
    """
    return up(
        UpOptions(
            data=data,
            gateway_port=None,
            nats_port=_number(nats_port),
            ephemeral=ephemeral,
            as_json=json,
            servers_only=True,
        )
    )


if __name__ == "__main__":
    status = app(result_action="return_value")
    # Everything is stopped. To take hundreds of modules apart as well would hold up whoever waits for this process.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(status or 0)  # None after --help
