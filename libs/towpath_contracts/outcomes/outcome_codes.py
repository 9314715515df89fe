"""Every code that a run, a tool call or a decision shows, with what it means and what to do about it.

A code that is a problem too stands in the registry of problems alone (`problems.registry`).
"""

from towpath_contracts.outcomes.call_outcomes import CALL_OUTCOMES
from towpath_contracts.outcomes.model_outcomes import MODEL_OUTCOMES
from towpath_contracts.outcomes.outcome_kind import OutcomeKind
from towpath_contracts.outcomes.run_outcomes import RUN_OUTCOMES

OUTCOMES: dict[str, OutcomeKind] = {kind.code: kind for kind in (*RUN_OUTCOMES, *CALL_OUTCOMES, *MODEL_OUTCOMES)}
