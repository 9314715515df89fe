"""The tree of commands and how one command line is run.

This file knows the commands by name only; a command's module is imported when it is called.
"""

import os
import sys
from typing import Any

from cyclopts import App

from towpath.cli.shared.usage_errors import usage_panel

_END = """Start here:
  towpath demo
  towpath init shop

Exit codes: 0 ok, 1 the run failed, 2 usage, 3 not found, 4 denied,
  5 still waiting, 6 no server answers, 130 interrupted."""

_PACKAGE = "towpath.cli"

_COMMANDS = (
    (
        "demo",
        "administration.demo_command:app",
        "Start a platform, run the sample on it, show what happened, stop it again.",
    ),
    ("init", "definitions.project_commands:init", "Write a project that runs at once."),
    ("new", "definitions.project_commands:app", "Add an agent, a network, a tool or a rule to a project."),
    ("test", "evaluation.test_command:test", "Run the tests of a project, without a platform."),
    ("eval", "evaluation.eval_command:eval_suites", "Run suites of cases with expected outcomes; compare models."),
    ("run", "runs.run_command:run", "Submit a task and follow it."),
    ("runs", "runs.runs_commands:app", "Look at runs, follow and cancel them; replay, export, fork."),
    ("plans", "definitions.plans_commands:app", "Check plans, and see how their steps stand."),
    ("gates", "access.gates_commands:app", "Decide what waits for a person."),
    ("networks", "definitions.networks_commands:app", "Validate, publish and look at networks."),
    ("policy", "access.policy_commands:app", "Apply and ask the permission matrix."),
    ("grants", "definitions.grants_commands:app", "Make a grant for a task: from its plan, past runs or a model."),
    ("workspace", "runs.workspace_commands:app", "Show, compare and export the files of a run."),
    ("switches", "access.switches_commands:app", "Pause a project, a network, a tool or a caller; resume it."),
    ("budgets", "access.budgets_commands:app", "Limit what callers and the project spend; see what is spent."),
    ("projects", "access.projects_commands:app", "Limit how many runs the project may have; see what is used."),
    ("costs", "access.costs_command:costs", "Show what models cost, by network, agent, model, label, caller or day."),
    ("tools", "definitions.tools_commands:app", "Look at the tools that workers offer; decide those that wait."),
    (
        "mcp",
        "definitions.mcp_commands:app",
        "Add MCP servers and look at what they offer; serve the platform to MCP clients.",
    ),
    ("a2a", "definitions.a2a_commands:app", "Show what agents of others read of a network."),
    ("audit", "access.audit_commands:app", "Search what was decided and done."),
    ("erasures", "access.erasures_commands:app", "See what is to be erased; confirm or withdraw it."),
    (
        "queues",
        "administration.queues_commands:app",
        "Look at what waits in queues, and at what they could not handle.",
    ),
    (
        "api",
        "connection.api_command:api",
        "Do any operation of the HTTP API.",
    ),
    ("context", "connection.context_commands:app", "Name platforms, and choose the one that is asked."),
    ("config", "connection.config_command:app", "Look at the settings in force, and at what says so."),
    ("keys", "administration.keys_commands:app", "Create, list and revoke API keys; make the key that signs tickets."),
)
_PLATFORM = (
    ("db", "administration.database_commands:app", "Bring the database up to date, and say that it was restored."),
    ("upgrade", "administration.upgrade_commands:app", "Look at what an upgrade would do."),
    ("backup", "administration.backup_commands:backup", "Copy the database of a platform into a file."),
    ("restore", "administration.backup_commands:restore", "Fill an empty database from a backup."),
    ("streams", "broker.streams_commands:app", "Declare the broker's streams and consumers."),
    (
        "workers",
        "administration.workers_commands:app",
        "See which workers there are, drain one; manage what they connect with.",
    ),
    (
        "agents",
        "administration.agents_commands:app",
        "Serve agents in user code; manage the credentials that they connect with.",
    ),
    ("clients", "broker.clients_commands:app", "Programs that submit over NATS: their credentials and subjects."),
    ("chaos", "administration.chaos_command:chaos", "Break a platform on purpose, and judge what is left of it."),
    ("completion", "connection.completion_command:app", "Have the shell complete commands, options and choices."),
    ("logs", "administration.logs_command:logs", "Show what the processes of the platform in this folder write."),
    ("doctor", "administration.doctor_command:app", "Check this machine and the platform it talks to."),
    ("schema", "definitions.project_commands:schema", "Print the JSON Schema of a kind of file, for editors."),
    ("explain", "administration.explain_command:explain", "Say what a problem code means and what to do."),
    ("version", "administration.explain_command:version", "Print the version."),
)
_PROCESSES = (
    ("up", "administration.process_commands:up", "Start the whole platform on this machine."),
    ("down", "administration.down_command:down", "Stop the platform that towpath up runs in this folder."),
    (
        "worker",
        "administration.process_commands:worker",
        "Run a tool worker, which serves the tools of your modules.",
    ),
    (
        "serve",
        "administration.process_commands:serve",
        "Run one service: gateway, orchestrator, decider, tas, worker, log_writer or watchdog.",
    ),
)

_EXAMPLES = {
    "worker": "Examples:\n  towpath worker tools/orders.py --concurrency 4"
    "\n  towpath worker shop.tools --mcp servers.yaml",
    "down": "Examples:\n  towpath down\n  towpath down --data /var/lib/shop",
    "serve": "Examples:\n  towpath serve gateway\n  towpath serve log_writer",
    "backup": "Examples:\n  towpath backup\n  towpath backup --to /backups/ -o json",
    "restore": "Examples:\n  towpath restore towpath-20261127T080000Z.dump"
    "\n  towpath restore kept.dump --database-url postgresql://owner@host/towpath",
    "init": "Examples:\n  towpath init shop\n  towpath init shop --empty",
    "schema": "Examples:\n  towpath schema network\n  towpath schema --write",
    "test": "Examples:\n  towpath test\n  towpath test tests/verdicts.yaml",
    "eval": "Examples:\n  towpath eval tests/evaluation.yaml"
    "\n  towpath eval --model openai:gpt-5-mini --model local:qwen3 --repeat 5",
    "run": "Examples:\n  towpath run support 'Refund order 8812'\n  towpath run support 'Where is 8813?' --wait 30s",
    "costs": "Examples:\n  towpath costs --by model\n  towpath costs --by label --since 30d -o json",
    "api": "Examples:\n  towpath api GET /v1/runs -f status=waiting"
    "\n  towpath api POST /v1/policy/check --input question.json",
    "chaos": "Examples:\n  towpath chaos --quick\n  towpath chaos --network my.yaml --decisions my.json --kills 50",
    "logs": "Examples:\n  towpath logs\n  towpath logs orchestrator worker --follow --since 10m",
    "explain": "Examples:\n  towpath explain gate_settled\n  towpath explain -o json",
    "version": "Examples:\n  towpath version\n  towpath version -o json",
}
"""Ends of the help of commands that are functions of their own; the groups' commands have theirs beside them."""


def make_app() -> App:
    """Return the command tree."""
    app = App(
        name="towpath",
        help="Run LLM agents in production: every step validated, permitted and recorded.",
        help_epilogue=_END,
        help_format="plaintext",  # markdown would cost a tenth of a second at every start
        version_flags=("--version",),
        version=_version,
    )
    ordered = [*enumerate((*_COMMANDS, *_PLATFORM), start=10), *enumerate(_PROCESSES, start=1)]
    for number, (name, path, text) in ordered:
        ending = {"help_epilogue": _EXAMPLES[name]} if name in _EXAMPLES else {}
        # What follows `up` belongs to the program that is started, `--help` too.
        own = {"help_flags": (), "version_flags": ()} if name == "up" else {}
        app.command(f"{_PACKAGE}.{path}", name=name, help=text, sort_key=number, **ending, **own)
    return app


def _version() -> str:
    from importlib.metadata import version

    return version("towpath")


def run(arguments: list[str]) -> int:
    """Run one command line; every failure becomes a message and an exit code, never a traceback."""
    try:
        code: Any = make_app()(arguments, result_action="return_value", error_formatter=usage_panel)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (`| head`): say nothing, and keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever went wrong, a person reads one message
        from towpath.cli.shared.exit_codes import report

        return report(error, arguments)
    return code if isinstance(code, int) else 0
