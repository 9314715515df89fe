"""Which outputs a prompt shows, and how much of each: whole ones, previews, or the id alone.

The newest step comes first; what it leaves of the room is for the steps before it. Outputs of one step share its room
by max-min fairness: what is small is whole, and the rest have equal parts. What is shown of an output never grows
again, as newer ones only take room away, so the state keeps no more than is shown.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from towpath_contracts.decisions.request import CutOutput, FullToolOutput
from towpath_contracts.text import as_text
from towpath_contracts.tools.previews import (
    ALL_PARTS,
    HEAD_PARTS,
    OutputPreview,
    first_bytes,
    last_bytes,
    text_bytes,
)

LEFT_TO_OLDER = 4
"""A step that can't be shown whole leaves this part of the room to what came before it, where that needs it: a result
that is cut anyway must not take small ones away."""

LEFT_WHEN_FULL = 8
"""What came before a step that takes more than half of the room has this part of it at most."""

LEAST_SHOWN = 300
"""Bytes: less room than that is no preview, as the line about what is left out has about half of it."""


def fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """Return how much of *room* each of *sizes* gets: at most itself, and else as much as every other large one."""
    shares = [0] * len(sizes)
    left = max(0, room)
    for done, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], left // (len(sizes) - done))
        left -= shares[index]
    return shares


def divide_outputs(
    outputs: Sequence[FullToolOutput], limit: int
) -> tuple[list[FullToolOutput], list[FullToolOutput], int]:
    """Return what is shown of *outputs* (newest first) within *limit* bytes, what is not, and the bytes shown.

    Once something of a step has no place, nothing older has one: a prompt has no gaps.
    """
    shown: list[FullToolOutput] = []
    hidden: list[FullToolOutput] = []
    room = limit
    older = sum(text_bytes(output.text) for output in outputs)
    for _step, members in groupby(outputs, key=lambda output: output.step):
        group = list(members)
        if hidden:
            hidden += group
            continue
        size = sum(text_bytes(output.text) for output in group)
        older -= size
        own, left_out = _shown_of_step(group, room if size <= room else room - min(older, room // LEFT_TO_OLDER))
        shown += own
        hidden += left_out
        room -= sum(text_bytes(output.text) for output in own)
    return shown, hidden, limit - room


def keep_outputs(
    outputs: Sequence[FullToolOutput], limit: int
) -> tuple[list[FullToolOutput], list[FullToolOutput], int]:
    """Return what `divide_outputs` does, for prompts that are only added to: nothing changes while all have room.

    Else they are divided so that about half of the room is free again: what was shown changes once for many steps. A
    step that needs more than half has what it needs; one that does not fit at all leaves a quarter free.
    """
    size = sum(text_bytes(output.text) for output in outputs)
    if size <= limit:
        return list(outputs), [], size
    newest = sum(text_bytes(output.text) for output in outputs if output.step == outputs[0].step)
    if newest > limit:
        return divide_outputs(outputs, limit - limit // LEFT_TO_OLDER)
    return divide_outputs(outputs, limit // 2 if newest <= limit // 2 else min(limit, newest + limit // LEFT_WHEN_FULL))


def _shown_of_step(group: list[FullToolOutput], room: int) -> tuple[list[FullToolOutput], list[FullToolOutput]]:
    """Divide *room* among the outputs of a step; while the parts would be too small, the last large one goes."""
    left_out: list[FullToolOutput] = []
    while True:
        sizes = [text_bytes(output.text) for output in group]
        shares = fair_shares(sizes, room)
        tight = [place for place, share in enumerate(shares) if share < min(sizes[place], LEAST_SHOWN)]
        if not tight:
            return [cut_output(output, share) for output, share in zip(group, shares, strict=True)], left_out
        left_out.insert(0, group.pop(tight[-1]))


def cut_output(output: FullToolOutput, most: int) -> FullToolOutput:
    """Return *output* with at most *most* bytes of text; at least LEAST_SHOWN, or the whole."""
    if text_bytes(output.text) <= most:
        return output
    cut = output.cut
    if cut is None:
        preview = OutputPreview.model_construct(head=output.text, tail="", size=text_bytes(output.text))
    else:
        tail = output.text[len(output.text) - cut.tail_chars :]
        preview = OutputPreview.model_construct(head=output.text[: cut.head_chars], tail=tail, size=cut.size)
    text, cut = cut_text(preview, most, output.execution_id)
    return output.model_copy(update={"text": text, "cut": cut})


def shown_values(values: Sequence[tuple[UUID, Any]], limit: int) -> list[Any]:
    """Return *values*, given with the ids of their calls; beyond *limit* together, large ones as cut texts."""
    texts = [as_text(value) for _, value in values]
    sizes = [text_bytes(text) for text in texts]
    return [
        value
        if share == size
        else cut_text(OutputPreview.model_construct(head=text, tail="", size=size), share, call)[0]
        for (call, value), text, size, share in zip(values, texts, sizes, fair_shares(sizes, limit), strict=True)
    ]


def cut_text(preview: OutputPreview, most: int, execution_id: UUID) -> tuple[str, CutOutput]:
    """Return beginning and end of what *preview* has, with a line between them that says how much is left out.

    All of it has at most *most* bytes, wherever these are enough for that line.
    """
    # The line counts with the most digits that it may have: what it says of the size can't make it longer than that.
    room = max(0, most - text_bytes(_left_out(preview.size, preview.size, execution_id)))
    # Without a tail the head is the whole text: its end is there to be taken.
    source = preview.tail or (preview.head if text_bytes(preview.head) >= preview.size else "")
    head = first_bytes(preview.head, room * HEAD_PARTS // ALL_PARTS if source else room)
    tail = last_bytes(source, room - text_bytes(head))
    line = _left_out(text_bytes(head) + text_bytes(tail), preview.size, execution_id)
    return head + line + tail, CutOutput(size=preview.size, head_chars=len(head), tail_chars=len(tail))


def _left_out(shown: int, size: int, execution_id: UUID) -> str:
    return (
        f"\n[… {shown} of {size} bytes are shown, the beginning and the end; execution_id {execution_id}:"
        " output_read and output_search have the rest …]\n"
    )
