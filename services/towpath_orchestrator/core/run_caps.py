"""What this platform allows of trees of runs, where its settings lower the server's caps."""

from towpath_contracts.runs.children import SERVER_CAPS, RunTreeCaps
from towpath_orchestrator.settings import OrchestratorSettings


def caps_of(settings: OrchestratorSettings, before: RunTreeCaps | None = None) -> RunTreeCaps | None:
    """Return the caps that a run is born with: None for the server's own. A fork has those of its parent too."""
    own = RunTreeCaps(
        max_depth=settings.max_depth, plan_steps=settings.max_plan_steps, max_parallel=settings.max_parallel
    )
    found = own.with_lower(before)
    return None if found == SERVER_CAPS else found
