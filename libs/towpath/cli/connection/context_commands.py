"""`towpath context`: platforms under names of one's own, and which of them is asked.

A key comes from a file or standard input, never from the command line, where every user of the machine could read it;
and it is never printed.
"""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.confirmation import Flag, require_yes
from towpath.cli.shared.input_files import read_text
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath.client.contexts import ContextFile, ContextList, PlatformContext
from towpath.client.settings import ClientSettings
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="context",
    help="Name platforms, and choose the one that is asked.",
    help_epilogue=examples(
        "towpath context add prod --server https://towpath.example.com", "towpath context select prod"
    ),
)

_LIST = (
    Column("", lambda row: "*" if row["selected"] else ""),
    Column("context", "name"),
    Column("server", "server"),
    Column("key", lambda row: "kept" if row["has_key"] else ""),
    Column("description", "description"),
)
_SHOW = (
    Column("context", "name"),
    Column("selected", lambda row: "yes" if row["selected"] else "no"),
    *_LIST[2:],
    Column("file", "file"),
)


@app.command(
    help_epilogue=examples(
        "towpath context add prod --server https://towpath.example.com --key-file prod.key",
        "towpath context add here --server http://127.0.0.1:8787",
    )
)
def add(
    name: str,
    /,
    *,
    server: str,
    key_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    description: str = "",
    select: Flag = False,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Keep a platform under a name, or change it; the first one is selected at once.

    Args:
        name: The name: small letters, digits, and . _ - between them.
        server: Its address, https://… or nats://user:password@host:port.
        key_file: A file with the key to ask with; - is standard input. Without it a key that is kept stays kept,
            as long as the address is the same.
        description: What it is, for the list.
        select: Select it as well.
    """
    file = _file()
    before = file.read().contexts.get(name)
    if key_file is not None:
        key: str | None = _key(key_file)
    else:
        key = before.api_key if before is not None and before.server == server else None
    held = file.add(PlatformContext(name=name, server=server, api_key=key, description=description))
    _show(file, file.select(name) if select else held, name, printed)


@app.command(name="list", help_epilogue=examples("towpath context list", "towpath context list -o json"))
def list_contexts(*, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the contexts; * marks the one that is asked where nothing else is said."""
    held = _file().read()
    rows = [_row(held, one) for one in held.contexts.values()]
    hint = "There are no contexts. Add one: towpath context add NAME --server URL."
    printed.out().rows("contexts", rows, _LIST, empty=hint)


@app.command(help_epilogue=examples("towpath context select prod", "towpath context select --none"))
def select(name: str = "", /, *, none: Flag = False, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Choose the context that commands and clients ask from now on.

    Args:
        name: The context.
        none: Select none: the platform on ./.towpath is asked again.
    """
    if bool(name) == none:
        raise ProblemError(problem("request_invalid", "name a context, or say --none"))
    file = _file()
    held = file.select(name)
    if name:
        _show(file, held, name, printed)
    else:
        printed.out().record({"selected": None}, (Column("selected", lambda row: row["selected"] or "none"),))


@app.command(help_epilogue=examples("towpath context show", "towpath context show prod -o json"))
def show(name: str = "", /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Show a context, without its key.

    Args:
        name: The context; the selected one, where it isn't given.
    """
    file = _file()
    held = file.read()
    if not name and not held.selected:
        remedy = "Name one, or select one: towpath context select NAME."
        raise ProblemError(problem("not_found", "no context is selected", remedy=remedy))
    _show(file, held, name or held.selected, printed)


@app.command(help_epilogue=examples("towpath context remove old", "towpath context remove old --yes"))
def remove(name: str, /, *, yes: Flag = False, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Forget a context and its key.

    Args:
        name: The context.
        yes: Don't ask; a script has to say it.
    """
    file = _file()
    file.read().named(name)
    require_yes(f"Forget the context {name} and its key?", yes=yes)
    held = file.remove(name)
    printed.out().record({"removed": name, "selected": held.selected or None}, (Column("removed", "removed"),))


def _file() -> ContextFile:
    return ContextFile(ClientSettings().contexts_file)


def _key(path: Path) -> str:
    key = read_text(path).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ProblemError(problem("request_invalid", f"{path} holds no key: one line without blanks"))
    return key


def _row(held: ContextList, context: PlatformContext) -> dict[str, Any]:
    return {
        "name": context.name,
        "selected": context.name == held.selected,
        "server": context.shown_server,
        "has_key": context.api_key is not None,
        "description": context.description,
    }


def _show(file: ContextFile, held: ContextList, name: str, printed: OutputOptions) -> None:
    printed.out().record({**_row(held, held.named(name)), "file": str(file.path)}, _SHOW)
