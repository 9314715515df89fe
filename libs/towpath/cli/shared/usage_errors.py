"""What a person typed that the parser can't read: the parser's panel, and what to do where that says nothing."""

import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from towpath_contracts.problems.near_names import suggest_name

MAX_WORDS = 8
"""Words that are repeated; a whole file may have been pasted."""

MAX_COMMANDS = 20
"""Commands that are listed; where there are more, and groups among them, the help is named instead."""

_NEAR = 0.7
"""How much of two names has to be alike for one to be a slip of the other: `rnus` is 0.75 like `runs`, and `deploy` 0.6
like `demo`, which the parser would suggest."""

_UNREAD = re.compile(r'Invalid value for (?P<option>\S+): unable to convert (?P<value>".*") into (?P<kind>\S+)\.')

_SUGGESTED = re.compile(r' Did you mean "([^"]*)"\?')

FOREIGN_COMMANDS: dict[tuple[str, ...], str] = {
    ("approvals",): "what waits for a person is listed by towpath gates list",
    ("approve",): "a call is approved by towpath gates approve ID",
    ("deny",): "a call is refused by towpath gates deny ID --reason WHY",
    ("gates", "edit"): "other arguments are approved by towpath gates approve ID --edit amount=20",
    ("audit", "list"): "entries are listed by towpath audit search",
    ("db", "backup"): "the database is copied by towpath backup",
    ("policy", "validate"): "a policy is checked, and not put in force, by towpath policy apply FILE --dry-run",
    ("connect",): "a server of MCP is added by towpath mcp add NAME COMMAND, or NAME URL",
    ("mcp", "import"): "a server is added by towpath mcp add NAME COMMAND, or NAME URL",
    ("mcp", "list"): "servers and their tools are listed by towpath mcp inspect FILE",
    ("mcp", "remove"): "a server is taken out of the file of servers, which towpath.yaml names as mcp",
    (
        "nats",
    ): "the broker is looked at by towpath doctor, its streams and consumers by towpath queues list, and who may "
    "do what there by towpath streams authority",
    **dict.fromkeys(
        (("dlq",), ("queues", "dlq")), "what queues could not handle is listed by towpath queues dead list"
    ),
    ("queues", "requeue"): "what a queue could not handle is sent again by towpath queues dead requeue ID",
    ("queues", "discard"): "what a queue could not handle is put away by towpath queues dead discard ID",
    ("settings",): "settings in force are shown by towpath config show, and keys of models are set in the environment: "
    "towpath explain model_unauthorized",
    **dict.fromkeys(
        (("deploy",), ("install",)),
        "one machine is started by towpath up. A server that others use is set up with deploy/compose.yaml of "
        "Towpath's repository; docs/guides/deploying.md there has the steps",
    ),
    ("help",): "each command is explained by towpath --help, one alone by --help behind it",
    ("ps",): "what runs here is listed by towpath doctor",
    ("status",): "how the platform stands is shown by towpath doctor, and how a run stands by towpath runs show",
    ("publish",): "a network is published by towpath networks publish FILE",
    ("validate",): "a network is checked by towpath networks validate FILE",
    ("stop",): "the platform of this folder is stopped by towpath down",
    ("start",): "the platform is started by towpath up",
    ("dev",): "the platform is started by towpath up, which serves files as soon as they are saved",
    ("networks", "delete"): "runs keep their version of a network, so none is deleted. New calls of its runs are held "
    "back by towpath switches pause network NAME --reason WHY",
    ("tools", "disable"): "calls of a tool are held back by towpath switches pause tool NAME --reason WHY",
    ("tools", "enable"): "calls of a tool go on by towpath switches resume tool NAME",
}
"""Commands of other tools, near to none of ours letter by letter, and what is written here in their place."""

FOREIGN_OPTIONS: dict[tuple[str, ...], str] = {
    ("run", "--budget"): "what a run may spend is --usd 0.5",
    ("run", "--network"): "the network is the first word, as in towpath run support 'Refund order 8812'",
    ("audit", "verify", "--bundle"): "the file is the first word, as in towpath audit verify bundle.jsonl",
    ("worker", "--pool"): "a toolset says which workers serve a tool, and stands above it: @tool(toolset=…)",
}
"""Such options, behind the words of their command."""

LISTS: dict[str, str] = {
    "RUN": "towpath runs list",
    "GATE": "towpath gates list",
    "NETWORK": "towpath networks list",
    "ENTRY": "towpath audit search",
    "ERASURE": "towpath erasures list",
    "LETTER": "towpath queues dead list",
    "KEY": "towpath keys list",
    "WORKER": "towpath workers list",
    "DECISION": "towpath audit search --phase decision",
}
"""By the word of a command that names one of many: what lists them."""

NEEDED_BESIDE: dict[tuple[str, ...], str] = {("gates", "deny"): "--reason WHY"}
"""What the platform demands beside that word, by the words of the command."""

LISTS_OF_NAMES: dict[str, str] = {
    "networks": "towpath networks list",
    "tools": "towpath tools list",
}
"""By a group whose commands call that word NAME."""

LISTS_OF_COMMANDS: dict[tuple[str, ...], str] = {
    ("context", "select"): "towpath context list",
    ("context", "remove"): "towpath context list",
    ("context", "show"): "towpath context list",
    ("policy", "rollback"): "towpath policy versions",
    ("policy", "rule", "show"): "towpath policy show",
    ("policy", "rule", "remove"): "towpath policy show",
}
"""By the words of a command whose word is called as others are."""

WRITTEN_BY: dict[str, str] = {"BUNDLE": "towpath audit export --file audit.jsonl"}
"""By the word that names a file which the platform writes."""

_MADE = frozenset({("context", "add")})
"""Commands whose NAME is one that there is not yet."""


def usage_panel(error: CycloptsError) -> Any:
    """Return what is shown for *error*."""
    from cyclopts.panel import CycloptsPanel  # here, because every command would pay for it

    return CycloptsPanel(_text_of(error))


def _text_of(error: CycloptsError) -> str | CycloptsError:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words = [str(word) for word in error.unused_tokens[:MAX_WORDS]]
        if names := _names_of(error):  # a group whose own command takes no words
            place = " ".join(("towpath", *(error.command_chain or ())))
            near = suggest_name(words[0], names)
            return (
                f'Unknown command "{words[0]}"{near}. There are {", ".join(names)}. {place} --help says what each does.'
            )
        more = " …" if len(error.unused_tokens) > MAX_WORDS else ""
        quoted = _quoted_whole(error.root_input_tokens or (), words, error.command_chain or ())
        return (
            f"The command takes no more words, and there are: {' '.join(words)}{more}. "
            f"Quote a text that has spaces{quoted}; the command with --help says what it takes."
        )
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        return _unknown_command(error, str(error.unused_tokens[0]))
    if isinstance(error, UnknownOptionError):
        return _unknown_option(error)
    if isinstance(error, CoercionError):
        return _unread_value(error)
    if isinstance(error, MissingArgumentError):
        said = _missing_word(error)
        return said if isinstance(said, str) else _with_example(error)
    return error


def _quoted_whole(typed: Sequence[str], unused: Sequence[str], command: Sequence[str]) -> str:
    """Return how what was *typed* is written with its last words as one text, where they are the *unused* ones.

    Where the *command* takes no word at all, nothing is to be quoted.
    """
    first = len(typed) - len(unused) - 1
    is_text = first > 0 and list(typed[first + 1 :]) == list(unused) and not typed[first].startswith("-")
    if not is_text or list(typed[: first + 1]) == list(command):
        return ", as in towpath run support 'Refund order 8812'"
    return f": {shlex.join(('towpath', *typed[:first], ' '.join(typed[first:])))}"


def _unknown_option(error: UnknownOptionError) -> str | CycloptsError:
    """Return what is written for an option of other tools; else the parser's words."""
    typed = (error.token.keyword or error.token.value).partition("=")[0]
    instead = FOREIGN_OPTIONS.get((*(error.command_chain or ()), typed))
    return error if instead is None else f"Unknown option: {typed}: {instead}."


def _unknown_command(error: UnknownCommandError, typed: str) -> str:
    """Return what was probably meant by *typed*, or all commands there: the parser suggests others and names eight."""
    from difflib import SequenceMatcher

    if instead := FOREIGN_COMMANDS.get((*(error.command_chain or ()), typed)):
        return f'Unknown command "{typed}": {instead}.'
    text = str(error)
    place = " ".join(("towpath", *(error.command_chain or ())))
    found, known = _SUGGESTED.search(text), _names_of(error)
    if found is not None and SequenceMatcher(None, typed, found[1]).ratio() >= _NEAR:
        return f'Unknown command "{typed}". Did you mean "{found[1]}"? {place} --help lists all commands.'
    has_groups = any(error.app is not None and _commands_of(error.app[name]) for name in known)
    if len(known) <= MAX_COMMANDS or not has_groups:
        return f'Unknown command "{typed}". There are {", ".join(known)}. {place} --help says what each does.'
    return f'Unknown command "{typed}". {place} --help lists all commands and says what each does.'


def _missing_word(error: MissingArgumentError) -> str | CycloptsError:
    """Return the parser's words, and the command that lists what could stand there, where one does."""
    word = error.argument.name if error.argument is not None else ""
    group, *_ = chain = tuple(error.command_chain or ("",))
    if chain in _MADE:
        return error
    command = LISTS_OF_COMMANDS.get(chain)
    listed = command or (LISTS_OF_NAMES.get(group) if word == "NAME" else LISTS.get(word))
    beside = NEEDED_BESIDE.get(chain)
    whole = "" if beside is None else f". A reason is needed too: {beside}"
    return error if listed is None else f"{error} Which there are: {listed}{whole}"


def _with_example(error: MissingArgumentError) -> str | CycloptsError:
    """Return the parser's words, and the first example of the command's own help."""
    help_of = "" if error.app is None else str(error.app.help_epilogue or "")
    example = next((line.strip() for line in help_of.splitlines() if line.startswith("  towpath ")), "")
    if not example:
        return error
    word = error.argument.name if error.argument is not None else ""
    writer = f"; what is verified is written by: {WRITTEN_BY[word]}" if word in WRITTEN_BY else ""
    return f"{error} Write it as in: {example}{writer}"


def _names_of(error: CycloptsError) -> list[str]:
    """Return the names of the commands that could stand there."""
    return [] if error.app is None else _commands_of(error.app)


def _commands_of(app: Any) -> list[str]:
    return [name for name in app if not name.startswith("-") and app[name].show]


_KINDS = {
    "int": ("a whole number", "4"),
    "float": ("a number", "0.5"),
    "int|Literal[auto]": ("a whole number or auto", "8787, or auto"),
}
"""What an option takes, and an example of it, by the words of the parser."""


def _unread_value(error: CoercionError) -> str:
    """Return what an option takes instead of the value that can't be read as that, in the words of who types."""
    words = _words_of(error.target_type)
    if words and error.token is not None:
        typed, option = error.token.value, error.token.keyword or "it"
        return f"{option} takes {', '.join(words)}, not {typed!r}{suggest_name(typed, words)}"
    text = str(error)
    found = _UNREAD.fullmatch(text)
    if found is None or found["kind"] not in _KINDS:
        return text
    kind, example = _KINDS[found["kind"]]
    return f"{found['option']} takes {kind}, not {found['value']}: write e.g. {found['option']} {example}"


def _words_of(kind: Any) -> tuple[str, ...]:
    """Return the words that a union of choices takes; none where it takes anything else, or is one choice alone.

    Of one choice the parser lists the words itself.
    """
    kinds = get_args(kind)
    if get_origin(kind) is Literal or not kinds or any(get_origin(one) is not Literal for one in kinds):
        return ()
    return tuple(str(word) for one in kinds for word in get_args(one))
