"""Notices of gates as texts for people: what an e-mail and a message in a chat say.

Who writes names, rules and arguments may want the text to say something else. So the platform's own words and the link
come first, and everything else stands below them: in one line each, with hidden characters named, cut where it is
long, and written so that neither a mail client nor a chat reads a link, a mention or formatting in it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from towpath_contracts.base import JsonObject
from towpath_contracts.text import SECRET_NAME, name_hidden, truncate
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_orchestrator.core.webhook_notices import UNKNOWN_EFFECT, told_reason

MAX_ARGUMENTS = 8
"""Arguments in a text, those first that nobody vouches for; all of them are behind the link."""

NAME_CHARS = 80
VALUE_CHARS = 200
SUBJECT_CHARS = 150
CHAT_CHARS = 1_900
"""A message in a chat: Discord takes 2,000 characters, and refuses longer ones."""

LEFT_OUT = "(left out: its name says that it is a secret)"
"""In place of the value of an argument; whoever decides sees it behind the link."""

_DOUBTFUL = frozenset({"untrusted", "unknown"})
_FIRST = re.compile(r"[.\[ ]")

_TOOL = re.compile(r"\w+\.\w+")
_HOST_DOT = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReceiver:
    """One mailbox or channel that is told of gates that open."""

    name: str
    projects: tuple[str, ...]
    shows_arguments: bool

    def wants(self, project: str, kind: str) -> bool:
        """Return whether it gets notices of *kind* in *project*."""
        return kind == "gate.opened" and any(fnmatchcase(project, glob) for glob in self.projects)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class NoticeText(NamedTuple):
    """What is said of a gate: `head` in the platform's own words, the rest in those of others."""

    head: str
    subject: str
    link: str
    way: str
    facts: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, str, bool], ...]
    hidden_arguments: int


def notice_text(gate: Any, detail: JsonObject, console_url: str, *, shows_arguments: bool) -> NoticeText:
    """Return what a text says of a gate row; *detail* is its detail, without the secrets that are known."""
    tool, is_call = _line(detail.get("tool") or "", NAME_CHARS), bool(gate["approval_id"])
    if gate["gate_type"] == UNKNOWN_EFFECT:
        head, about = "Nobody knows whether a call happened", tool
    elif is_call:
        head, about = "A call waits for approval", tool
    else:
        head, about = "A run asks a person", _line(gate["gate_type"], NAME_CHARS)
    rule = _line(detail.get("rule") or "", NAME_CHARS)
    quorum = detail.get("quorum") or 1
    facts = {
        "Tool": tool,
        "Call": _line(summary_of_gate(detail), VALUE_CHARS) if shows_arguments else "",
        "Rule": rule,
        "Why": _line(told_reason(gate, detail), VALUE_CHARS),
        "Agent": _line(detail.get("agent") or "", NAME_CHARS),
        "Network": _line(gate["network"], NAME_CHARS),
        "Project": _line(gate["project"], NAME_CHARS),
        "Run": str(gate["run_id"]),
        "Who": _line(f"role {detail['role']}", NAME_CHARS) if detail.get("role") else "",
        "People": f"{quorum} have to approve" if quorum != 1 else "",
        "Until": f"{_time(gate['expires_at'])}; then {_unanswered(gate, detail, is_call=is_call)}",
    }
    rows = _arguments(detail) if shows_arguments else ()
    path = f"/approvals/{gate['gate_id']}"
    return NoticeText(
        head=head,
        subject=truncate(f"{head}: {about}" + (f" (rule {rule})" if rule else ""), SUBJECT_CHARS),
        link=f"{console_url.rstrip('/')}{path}" if console_url else "",
        way=f"towpath gates show {gate['gate_id']}",
        facts=tuple((name, value) for name, value in facts.items() if value),
        arguments=rows[:MAX_ARGUMENTS],
        hidden_arguments=max(0, len(rows) - MAX_ARGUMENTS),
    )


def mail_body(text: NoticeText) -> str:
    """Return the plain text of an e-mail; an address in what others wrote is broken, for clients make links of it."""
    lines = [f"{text.head}.", "", f"Decide here: {text.link}" if text.link else f"Look at it with: {text.way}", ""]
    lines += [f"{name + ':':<9} {_unlinked(name, value)}" for name, value in text.facts]
    if text.arguments:
        lines += ["", "Arguments, as the agent wrote them:"]
        lines += [f"> {_unlinked('', line)}" for line in _argument_lines(text)]
    lines += ["", "Nothing can be decided by answering this message.", ""]
    return "\n".join(lines)


def chat_message(text: NoticeText) -> JsonObject:
    """Return the message for an incoming webhook as Slack takes it, and Mattermost, Discord and others like it.

    What others wrote stands in a block of code, where no chat looks for links, mentions or formatting.
    """
    head = f"{text.head}.\n" + (f"Decide here: {_escaped(text.link)}" if text.link else f"Look at it with: {text.way}")
    lines = [f"{name + ':':<9} {value}" for name, value in text.facts]
    if text.arguments:
        lines += ["Arguments, as the agent wrote them:", *(f"  {line}" for line in _argument_lines(text))]
    code = _code(lines, CHAT_CHARS - len(head))
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in (head, code)]
    return {"text": f"{head}\n{code}", "blocks": blocks}


def _code(lines: Sequence[str], most: int) -> str:
    """Return as many of *lines* as fit into a block of code of *most* characters."""
    begin, end, more = "```\n", "\n```", "… more behind it"
    shown, left = [], most - len(begin) - len(end) - len(more) - 2
    for line in (_escaped(line).replace("`", "\u02cb") for line in lines):
        left -= len(line) + 1
        if left < 0:
            shown.append(more)
            break
        shown.append(line)
    return begin + "\n".join(shown) + end


def _escaped(text: str) -> str:
    """Return *text* as Slack shows it as it is: `<!here>` mentions, `<https://x|y>` is a link by any name."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _unlinked(name: str, text: str) -> str:
    """Return *text* so that no client makes a link of it: they know hosts too, with and without `www`.

    The name of a tool with its toolset stays as it is.
    """
    if name == "Tool" and _TOOL.fullmatch(text):
        return text
    return _HOST_DOT.sub("[.]", text.replace("://", "[://]"))


def _argument_lines(text: NoticeText) -> Iterable[str]:
    for name, value, doubtful in text.arguments:
        yield f"{name} = {value}" + ("   (nobody vouches for it)" if doubtful else "")
    if text.hidden_arguments:
        yield f"and {text.hidden_arguments} more"


def _arguments(detail: Mapping[str, Any]) -> tuple[tuple[str, str, bool], ...]:
    """Return the arguments in short, those first that nobody vouches for."""
    args = detail.get("args")
    if not isinstance(args, dict):
        return ()
    doubtful = set()
    for one in detail.get("origins") or ():
        path = str(one.get("path", ""))
        if one.get("from") in _DOUBTFUL or one.get("leak"):
            doubtful.add(path if path in args else _FIRST.split(path)[0])
    rows = [(_line(name, NAME_CHARS), _value(name, value), name in doubtful) for name, value in args.items()]
    return tuple(sorted(rows, key=lambda row: not row[2]))


def _value(name: str, value: Any) -> str:
    if SECRET_NAME.search(name):
        return LEFT_OUT
    return _line(json.dumps(_veiled(value), ensure_ascii=False), VALUE_CHARS)


def _veiled(value: Any) -> Any:
    """Return *value* without what is named as a secret inside it."""
    match value:
        case dict():
            return {key: LEFT_OUT if SECRET_NAME.search(key) else _veiled(item) for key, item in value.items()}
        case list():
            return [_veiled(item) for item in value]
        case _:
            return value


def _line(value: Any, most: int) -> str:
    """Return *value* in one line, with characters named that show nothing or change how others are read."""
    sendable = str(value).encode("utf-8", "replace").decode()  # lone surrogates can't travel
    return truncate(name_hidden(" ".join(sendable.split())), most)


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _unanswered(gate: Any, detail: Mapping[str, Any], *, is_call: bool) -> str:
    if gate["gate_type"] == UNKNOWN_EFFECT:
        return "the agent is told that nobody knows"
    if not is_call:
        return "the run ends as escalated"
    return "the policy admins are asked" if detail.get("on_expiry") == "escalate" else "it is denied"
