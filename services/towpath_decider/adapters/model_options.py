"""Options that only help (a response format, thinking off, settings), and which models' servers do not take them.

An option that a server refuses by name is left out and the question asked again at once; that is part of the same
attempt. Where the server does not know the option it is never sent to that model again, and the log says so once.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_decider.adapters.provider_failures import REFUSED_REQUEST
from towpath_decider.core.conversation import ModelCallFailure, ModelReply
from towpath_fabric.telemetry.logs import Logger

Send = Callable[[frozenset[str]], Awaitable[ModelReply | ModelCallFailure]]

MAX_MODELS = 256
"""Models that are remembered; their names come from tasks, so there is no other end."""

NAME_CHARS = 128

_UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|forbidden|does not|only works|must be"
    r"|not available|not allowed|cannot be|invalid (parameter|value|type)|is invalid",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppableOption:
    """One option, and the words of a refusal that mean it. One that is not `lasting` depends on the question."""

    name: str
    named: re.Pattern[str]
    lasting: bool = True
    unknown: re.Pattern[str] = _UNKNOWN


TEMPERATURE, TOP_P, SEED, STOP, EFFORT = "temperature", "top_p", "seed", "stop", "effort_set"

_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|extra (field|input)|deprecated|cannot both",
    re.IGNORECASE,
)
"""Refusals of a setting as such; any other may mean the value that one request chose."""


def _setting(name: str, pattern: str) -> DroppableOption:
    return DroppableOption(name=name, named=re.compile(pattern, re.IGNORECASE), unknown=_NOT_TAKEN)


SETTINGS = (
    _setting(TEMPERATURE, r"temperature"),
    _setting(TOP_P, r"\btop_?p\b"),
    _setting(SEED, r"\bseed\b"),
    _setting(STOP, r"\bstop(_?sequences?)?\b"),
)
"""What somebody chose, in the order in which it is given up."""

SET_EFFORT = _setting(EFFORT, r"reasoning|thinking|effort")


def options_unset(settings: ModelSettings | None) -> frozenset[str]:
    """Return the options that a request does not have: they can't be what its refusal is about."""
    given = _given(settings)
    unset = {option.name for option in SETTINGS if option.name not in given}
    return frozenset(unset if "reasoning_effort" in given else {*unset, EFFORT})


def chosen(settings: ModelSettings | None, off: frozenset[str], **names: str) -> JsonObject:
    """Return the settings that are to be sent, under the provider's *names* for them; others have none there."""
    return {names[name]: value for name, value in _given(settings).items() if name in names and name not in off}


def _given(settings: ModelSettings | None) -> JsonObject:
    return {} if settings is None else settings.model_dump(mode="json")


TOOLS = "tools"

OFFERED_TOOLS = DroppableOption(
    name=TOOLS,
    named=re.compile(r"\btools?\b|tool_choice|tool_use|function.?call|for function|input_schema", re.IGNORECASE),
    unknown=re.compile(
        r"(unsupported|not support|unknown|unrecognized|unexpected)[^.\n]{0,40}\btools?\b"
        r"|\btools?\b[^.\n]{0,40}(not support|unsupported|not permitted|requires)",
        re.IGNORECASE,
    ),
)
"""Tools that are offered natively; a schema of one of them that a server refuses is about that request alone."""


class DroppableOptions:
    """The options of one provider, in the order in which they are given up."""

    def __init__(self, provider: str, options: tuple[DroppableOption, ...], log: Logger | None) -> None:
        self._provider = provider
        self._options = options
        self._log = log
        self._left_out: OrderedDict[str, frozenset[str]] = OrderedDict()

    async def ask(self, model: str, send: Send, unset: frozenset[str] = frozenset()) -> ModelReply | ModelCallFailure:
        """Call *send* with the names of the options to leave out, until none more is refused by name.

        *unset* are those that the request does not have anyhow.
        """
        off = self._left_out.get(model, frozenset()) | unset
        while True:  # every turn gives one option up, so there are as many turns as options at most
            reply = await send(off)
            if not isinstance(reply, ModelCallFailure) or reply.code != REFUSED_REQUEST:
                return reply
            text = reply.message
            option = next((one for one in self._options if one.name not in off and one.named.search(text)), None)
            if option is None:
                return reply
            off |= {option.name}
            if option.lasting and option.unknown.search(text):
                self._remember(model, option)

    def is_left_out(self, model: str, option: str) -> bool:
        """Return whether *option* is never sent to *model*."""
        return option in self._left_out.get(model, ())

    def _remember(self, model: str, option: DroppableOption) -> None:
        known = self._left_out.get(model, frozenset())
        if option.name in known:
            return
        self._left_out[model] = known | {option.name}
        while len(self._left_out) > MAX_MODELS:
            self._left_out.popitem(last=False)
        if self._log is not None:
            shown = model[:NAME_CHARS]
            self._log.warning(
                "a model's server does not take an option", provider=self._provider, model=shown, option=option.name
            )
