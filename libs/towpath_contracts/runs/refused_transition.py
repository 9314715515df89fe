"""The fact that parks a run of which something can't be stored. No source may send it: it is never in the inbox."""

from typing import Literal

from towpath_contracts.runs.fact_base import FactBase


class TransitionRefusedFact(FactBase):
    """The database can't store what a fact of the type `refused` makes of the run; `message` says why."""

    type: Literal["transition.refused"] = "transition.refused"
    refused: str
    message: str
