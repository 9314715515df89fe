"""Trying a model for real: one small call that says whether its provider takes the key and knows the model.

A model that does not answer is a finding and no refusal of the request: `code` says what kind it is, in the words in
which runs fail, and `remedy` what to do. No key stands in any of them.
"""

from typing import Annotated

from pydantic import Field

from towpath_contracts.base import ClientMessage, Message
from towpath_contracts.decisions.request import Cost, Usage

ModelString = Annotated[str, Field(min_length=1, max_length=256)]


class CheckModelBody(ClientMessage):
    """Which model is to be tried, as networks name it: `provider:model`."""

    model: ModelString


class CheckModel(Message):
    """Gateway to decider: ask *model* once, in the turn of *caller* where its provider is limited."""

    project: str
    model: ModelString
    caller: str = ""


class ModelChecked(Message):
    """Whether the model answered, and what that took; `code`, `detail` and `remedy` say why it did not."""

    model: str
    works: bool
    code: str = ""
    detail: str = ""
    remedy: str = ""
    duration_ms: int = 0
    usage: Usage = Usage()
    cost: Cost = Cost()
