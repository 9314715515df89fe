"""Adds what calls returned, and documents of the task, to what a run has seen, in the forms in which they are kept.

What could not be read whole makes the run's knowledge incomplete; what is no JSON is untrusted text.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from towpath_contracts.tools.previews import recorded_preview
from towpath_tas.core.provenance.logged_answers import LoggedAnswer
from towpath_tas.core.provenance.provenance import UNDECLARED, RunProvenance
from towpath_tas.core.provenance.search_budget import PER_LEAF
from towpath_tas.core.provenance.text_readers import ANYONE, CallDeclaration
from towpath_tas.core.provenance.value_leaves import ValueSource


def add_answer(known: RunProvenance, answer: LoggedAnswer, readers: CallDeclaration = UNDECLARED) -> None:
    """Add what an agent or an internal tool answered, which *readers* may know: untrusted, whoever asked."""
    if answer.failure:
        known.add_untrusted(answer.source, answer.failure, readers.loose_text())
    if answer.result is not None:
        known.add_output(answer.source, answer.result, trusted=False, readers=readers)
    for part in answer.parts:
        # Its readers, and what a record vouches for, are known of the output itself; where that was not read whole, the
        # run counts as one that nobody may know. Where a part ends inside a value, nothing else says that the piece was
        # read: so the text counts as untrusted, and takes no reader away.
        known.add_untrusted(answer.source, part, ANYONE)


def add_below(known: RunProvenance, below: RunProvenance, step: int) -> None:
    """Add who may know what a run *below* has read, which was asked in *step*: in its answer that keeps its readers.

    Nothing else: where a value of an answer comes from is the agent that gave it.
    """
    for one in below.texts:
        known.texts.append(replace(one, source=ValueSource(one.source.tool, step)))
        known.below_chars += len(one.letters) + PER_LEAF


def add_person_statement(known: RunProvenance, fact: Mapping[str, Any]) -> None:
    """A person stated that the call happened: their text is trusted like the task's (that of a refusal is not)."""
    result = fact.get("result")
    if isinstance(result, dict):
        known.add_task(str(result.get("reason", "")))


def add_blob(
    add: Callable[[Any], None],
    known: RunProvenance,
    seen: ValueSource,
    readers: CallDeclaration,
    data: bytes,
    *,
    whole: bool,
) -> str | None:
    """Add a large result and return its text; one that was not read whole, or is no JSON, is untrusted text."""
    try:
        if whole:
            result = json.loads(data, object_pairs_hook=_with_all_members)
            add(result)
            return result if isinstance(result, str) else data.decode("utf-8", "replace")
    except (ValueError, RecursionError):  # a worker sent these bytes: they may be anything
        whole = False
    known.mark_incomplete()
    known.add_untrusted(seen, data.decode("utf-8", "replace"), readers.loose_text())
    return None


def add_document(known: RunProvenance, seen: ValueSource, data: bytes, *, whole: bool) -> None:
    """Add a text that the task attaches: untrusted, as it stands and, where it is JSON, by what its values mean."""
    known.add_untrusted(seen, data.decode("utf-8", "replace"))
    if not whole:
        known.mark_incomplete()
        return
    try:
        known.add_output(seen, json.loads(data, object_pairs_hook=_with_all_members), trusted=False)
    except RecursionError:
        known.mark_incomplete()  # what its escapes stand for was not looked at
    except ValueError:
        return  # a plain text


def _with_all_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON with all values of a name that it has more than once: a model reads each of them."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def add_preview(
    known: RunProvenance, seen: ValueSource, readers: CallDeclaration, preview: Any, text: str | None
) -> None:
    """Add what a worker says that its result begins and ends with, and models read, unless it is what *text* has."""
    if not preview or (text is not None and preview == recorded_preview(text).model_dump(mode="json")):
        return
    for piece in (preview.get("head"), preview.get("tail")):
        if piece:
            known.add_untrusted(seen, piece, readers.loose_text())
