"""What a second matrix would have decided, noted beside a decision.

A shadow is never obeyed and changes nothing of a step but its notes. It is asked once per call, when the call is
first decided, and only where the matrix in force was the one to decide; its limits are looked through.
"""

import json
from dataclasses import replace

from towpath_tas.core.authorization import Asked, Law
from towpath_tas.core.calls.call import Note, Step
from towpath_tas.core.denials import Violation
from towpath_tas.core.policy.policy_comparison import said, with_origin

PHASE = "shadow"
"""The phase of the audit entry that tells a divergence; its verdict is `allow->deny`: decided, and said otherwise."""


def beside(step: Step, asked: Asked, law: Law) -> Step:
    """Return *step*, which first decided the call that *asked* about, with the word of *law*'s shadow if it differs."""
    decided = next((note for note in step.notes if note.phase == "decision"), None)
    tool = law.registry.tools.get(asked.tool)
    if law.shadow is None or decided is None or tool is None or not _by_matrix(decided):
        return step
    told = replace(asked, origin=json.loads(decided.call.context).get("origin"))
    known = with_origin(law.shadow, told, tool.spec.operation, tool.spec)
    if known is None:
        return step  # decided before anybody looked where its values come from
    verdict = said(law.shadow, known, tool.spec.operation, tool.spec)
    if verdict.effect == decided.verdict:
        return step
    note = Note(
        phase=PHASE,
        verdict=f"{decided.verdict}->{verdict.effect}",
        call=decided.call,
        detail={"rule": verdict.rule.name if verdict.rule else None},
    )
    return replace(step, notes=(*step.notes, note))


def _by_matrix(decided: Note) -> bool:
    return decided.verdict != "deny" or (decided.detail or {}).get("violation_type") == Violation.PERMISSION
