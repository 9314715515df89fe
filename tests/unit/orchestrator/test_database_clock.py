"""Postgres's clock as the commit loop carries it: never behind, however late an answer arrives."""

from datetime import UTC, datetime, timedelta

from towpath_fabric.clock import use_simulated_clock
from towpath_orchestrator.app.commit.run_reader import CLOCK_CARRY_S, CLOCK_DOUBT, DatabaseClock

START = datetime(2026, 1, 1, tzinfo=UTC)


class _Scene:
    """Postgres and this process on clocks of one speed; answers take as long as a test says."""

    def __init__(self) -> None:
        self.passed = 100.0
        self.postgres = START
        self.clock = DatabaseClock()

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.postgres += timedelta(seconds=seconds)

    def ask(self, there: float, back: float) -> datetime:
        asked = self.passed
        self.wait(there)
        found = self.postgres
        self.wait(back)
        return self.clock.synchronize(found, asked)

    def error_s(self) -> float:
        """How far the carried time is ahead of Postgres's."""
        read = self.clock.read()
        assert read is not None
        return (read - self.postgres).total_seconds()


def test_a_late_answer_puts_no_time_behind_postgres() -> None:
    """The end of a run, dated by a late answer, stood before the effect that the run had waited for."""
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        scene.ask(0.001, 0.001)
        for there, back in ((0.001, 0.3), (0.2, 0.0), (0.001, 0.001), (0.0005, 0.5), (0.1, 0.1)):
            scene.ask(there, back)
            scene.wait(0.4)
            assert 0 <= round(scene.error_s(), 5) <= CLOCK_DOUBT.total_seconds()


def test_the_quickest_answer_says_how_far_ahead_it_may_be() -> None:
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        for there, back, ahead in ((0.02, 0.01, 0.02), (0.002, 0.001, 0.002), (0.3, 0.1, 0.002)):
            scene.ask(there, back)
            assert round(scene.error_s(), 6) == ahead
            scene.wait(0.1)


def test_time_does_not_go_back_when_a_quicker_answer_shows_that_it_was_ahead() -> None:
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        scene.ask(0.04, 0.001)
        carried = scene.clock.read()
        assert carried is not None
        assert scene.ask(0.001, 0.001) == carried
        assert scene.clock.read() == carried
        scene.wait(0.1)
        assert scene.ask(0.0, 0.001) > carried


def test_nothing_is_carried_before_an_answer_was_quick() -> None:
    """The first answer of a process may have waited for a connection, for seconds."""
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        scene.ask(3.0, 0.001)
        assert scene.clock.read() is None
        scene.ask(0.2, 0.3)
        assert scene.clock.read() is None
        scene.ask(0.002, 0.001)
        assert round(scene.error_s(), 6) == 0.002


def test_a_clock_that_somebody_sets_is_followed() -> None:
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        scene.ask(0.001, 0.001)
        for jump_s in (3_600, -7_200):
            scene.postgres += timedelta(seconds=jump_s)
            scene.ask(0.002, 0.001)
            assert round(scene.error_s(), 6) == 0.002


def test_an_old_answer_is_asked_for_again() -> None:
    scene = _Scene()
    with use_simulated_clock(lambda: scene.passed, 0):
        assert scene.clock.read() is None
        scene.ask(0.001, 0.001)
        scene.wait(CLOCK_CARRY_S * 0.9)
        assert scene.clock.read() is not None
        scene.wait(CLOCK_CARRY_S)
        assert scene.clock.read() is None
