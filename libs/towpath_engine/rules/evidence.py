"""What of a goal run can be named as evidence, and whether a judgement names any of it: without a model, by the log.

Calls that did something, artifacts and files that the run wrote. What it began with was there before, and shows
nothing: files that its task mounted, or that the run left which it continues.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.evidence import EvidenceSearch
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import RunState

FILES_LISTED = 200
"""Files of the workspace that can be named."""


def needs_evidence(state: RunState) -> bool:
    """Return whether a model's judgement counts only with evidence; a run says so from its beginning, or never."""
    return state.created.goal_settings.require_evidence is True


def evidence_of(state: RunState, goal: GoalState) -> list[JsonObject]:
    """Return what can be named, each with what it is."""
    desk = {} if state.desk is None else state.desk.files
    before = {(file.path, file.digest, file.version) for file in state.created.workspace}
    own = {path: file for path, file in desk.items() if not file.read_only}
    files = [path for path, file in own.items() if (path, file.digest, file.version) not in before]
    made = {str(one["name"]) for one in goal.artifacts}
    return [
        *goal.deeds,
        *({"name": str(one["name"]), "what": "artifact"} for one in goal.artifacts),
        *({"name": path, "what": "file"} for path in files[-FILES_LISTED:] if path not in made),
    ]


def evidence_search(state: RunState, goal: GoalState) -> EvidenceSearch | None:
    """Return what looks for names of this run in one judgement; None where it need not name anything."""
    if not needs_evidence(state):
        return None
    return EvidenceSearch(str(one["name"]) for one in evidence_of(state, goal))


def is_shown(search: EvidenceSearch | None, evidence: str) -> bool:
    """Return whether *evidence* names something of the run, where it has to."""
    return search is None or search.is_named_in(evidence)
