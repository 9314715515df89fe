"""Events about what people say to a run from outside. A pause, and a gate that a person puts, are gates of the run.

`act_id` names one act of one person: an act that is delivered again is known by it.
"""

from typing import Literal
from uuid import UUID

from towpath_contracts.base import MessagePart


class NoteGiven(MessagePart):
    """A person said something to the run; the model reads it with its next decision that is asked for from now on."""

    type: Literal["note_given"] = "note_given"
    step: int
    text: str
    by: str
    act_id: UUID


class ConfidenceRequested(MessagePart):
    """A person wants to know how confident the model is: it is asked when the step is over."""

    type: Literal["confidence_requested"] = "confidence_requested"
    step: int
    by: str
    reason: str = ""
    act_id: UUID
