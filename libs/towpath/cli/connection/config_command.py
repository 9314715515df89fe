"""`towpath config`: what this machine's commands ask and with what, and with --platform what the gateway runs with."""

from typing import Any

from cyclopts import App

from towpath.cli.shared.confirmation import Flag
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.client.settings import ClientSettings, ClientTarget

app = App(
    name="config",
    help="Look at the settings in force, and at what says so.",
    help_epilogue=examples("towpath config show --origin", "towpath config show --platform --origin -o json"),
)

_VALUES = (Column("setting", "name"), Column("value", "value"))
_ORIGIN = (Column("origin", "origin"),)


@app.command(help_epilogue=examples("towpath config show --origin", "towpath config show --platform --origin -o json"))
async def show(*, origin: Flag = False, platform: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show which platform commands ask from here, with which key and from which context; no secret is shown.

    Args:
        origin: Show beside each value what says so: an option, the environment, a context, the folder, a default.
        platform: Instead, what the gateway there runs with (takes the scope platform:operate).
    """
    rows = await _of_platform(common) if platform else _of_here(common.target(), ClientSettings())
    if not origin:
        rows = [{name: value for name, value in row.items() if name != "origin"} for row in rows]
    common.out().rows("settings", rows, (*_VALUES, *_ORIGIN) if origin else _VALUES, empty="")


def _of_here(target: ClientTarget, settings: ClientSettings) -> list[dict[str, Any]]:
    from towpath.client.contexts import PlatformContext

    shown = PlatformContext(name="", server=target.server).shown_server
    file_origin = "TOWPATH_CONTEXTS_FILE" if "contexts_file" in settings.model_fields_set else "default"
    key = {"value": "set", "origin": target.api_key_origin} if target.api_key else {"value": None, "origin": "default"}
    return [
        {"name": "server", "value": shown, "origin": target.server_origin},
        {"name": "api_key", **key},
        {"name": "context", "value": target.context or None, "origin": target.context_origin},
        {"name": "contexts_file", "value": str(settings.contexts_file), "origin": file_origin},
    ]


async def _of_platform(common: ConnectionOptions) -> list[dict[str, Any]]:
    async with common.connect() as client:
        found = await client.request("GET", "/v1/settings")
    return list(found["settings"])
