"""How far a replica is behind is found by positions, and by one clock."""

import math

import pytest

from towpath_fabric.postgres.read_replica import MAX_POSITIONS, ReplicaLag, at_hosts


def test_nothing_is_known_of_a_replica_that_has_not_reached_any_position() -> None:
    lag = ReplicaLag()
    lag.wrote(100, 1.0)
    lag.replayed(99, "one")
    assert lag.seconds(2.0) == math.inf


def test_a_replica_is_as_old_as_the_newest_position_that_it_has() -> None:
    lag = ReplicaLag()
    for position, at in ((100, 1.0), (200, 2.0), (300, 3.0)):
        lag.wrote(position, at)
    lag.replayed(250, "one")
    assert lag.seconds(3.5) == pytest.approx(1.5)
    lag.replayed(300, "one")
    assert lag.seconds(3.5) == pytest.approx(0.5)


def test_a_primary_that_writes_nothing_makes_no_replica_old() -> None:
    lag = ReplicaLag()
    for at in (1.0, 2.0, 3.0):
        lag.wrote(100, at)
        lag.replayed(100, "one")
    assert lag.seconds(3.2) == pytest.approx(0.2)


def test_a_replica_that_moves_no_more_grows_old() -> None:
    lag = ReplicaLag()
    lag.wrote(100, 1.0)
    lag.replayed(100, "one")
    for at in (2.0, 3.0):
        lag.wrote(200, at)
        lag.replayed(100, "one")
    assert lag.seconds(3.0) == pytest.approx(2.0)


def test_a_replica_that_was_away_for_long_is_known_again_once_it_has_what_is_remembered() -> None:
    lag = ReplicaLag()
    for number in range(3 * MAX_POSITIONS):
        lag.wrote(number, float(number))
    lag.replayed(MAX_POSITIONS, "one")
    assert lag.seconds(3.0 * MAX_POSITIONS) == math.inf
    lag.replayed(3 * MAX_POSITIONS - 1, "one")
    assert lag.seconds(3.0 * MAX_POSITIONS) == pytest.approx(1.0)


def test_what_one_replica_held_says_nothing_of_another_that_is_read_in_its_place() -> None:
    lag = ReplicaLag()
    lag.wrote(100, 1.0)
    lag.replayed(100, "one")
    lag.wrote(200, 2.0)
    lag.replayed(50, "two")
    assert lag.seconds(2.0) == math.inf
    lag.replayed(200, "two")
    assert lag.seconds(2.5) == pytest.approx(0.5)
    lag.forget()
    assert lag.seconds(2.5) == math.inf


@pytest.mark.parametrize(
    ("given", "hosts", "used"),
    [
        ("postgresql://a:b@one/towpath", "two:5433", "postgresql://a:b@two:5433/towpath?target_session_attrs=standby"),
        (
            "postgresql://a:b@one:5432,two:5432/towpath?target_session_attrs=read-write&sslmode=require",
            "two:5432,three:5432",
            "postgresql://a:b@two:5432,three:5432/towpath?sslmode=require&target_session_attrs=standby",
        ),
        (
            "postgresql://a@/towpath?host=%2Frun&port=5432",
            "two",
            "postgresql://a@two/towpath?target_session_attrs=standby",
        ),
        ("postgresql://one/towpath", "[::1]:5433", "postgresql://[::1]:5433/towpath?target_session_attrs=standby"),
    ],
)
def test_a_replica_has_the_address_of_the_primary_but_for_its_hosts(given: str, hosts: str, used: str) -> None:
    assert at_hosts(given, hosts) == used
