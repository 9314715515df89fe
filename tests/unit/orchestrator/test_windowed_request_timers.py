"""When a run is woken of which some requests are held here: for everything that nobody looks after."""

from datetime import timedelta
from uuid import UUID

from tests.support.engine.machine import START, snapshot, task

from towpath_contracts.facts import RunAdmittedFact
from towpath_engine.advance import advance
from towpath_engine.replay import create
from towpath_engine.state.replace import replace
from towpath_engine.state.run import EffectKind, PendingEffect
from towpath_orchestrator.app.dispatch.windowed_request_timers import next_wake

DUE = START + timedelta(seconds=5)
LOST, HELD = UUID(int=7), UUID(int=8)


def test_a_lost_request_is_repeated_while_another_of_its_run_is_held() -> None:
    """Two requests were asked for at once: one was sent and lost, the other waits for its turn, for a long time."""
    network = snapshot()
    state, _ = create(UUID(int=1), network, task(network, timeout_ms=3_153_600_000_000), START)
    _, _, state = advance(state, RunAdmittedFact(run_id=state.run_id), START)
    pending = tuple(
        PendingEffect(effect_id=key, kind=EffectKind.TOOL, attempt=1, resend_at=DUE) for key in (LOST, HELD)
    )
    state = replace(state, pending=pending)
    for second in (2, 5, 60):
        now = START + timedelta(seconds=second)
        assert next_wake(state, now, 10.0, {HELD}) == DUE
        assert next_wake(state, now, 10.0, {HELD, LOST}) == now + timedelta(seconds=10)
