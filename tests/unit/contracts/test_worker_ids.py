"""Ids of worker processes: who knows only the id can't speak for it."""

import uuid

from towpath_contracts.tools.workers import is_proved, proved_id


def test_an_id_is_proved_by_what_it_was_made_of_and_by_nothing_else() -> None:
    made = proved_id("secret")
    assert uuid.UUID(made).version == 8 and uuid.UUID(made).variant == uuid.RFC_4122 and len(made) == 32
    assert is_proved(made, "secret")
    for proof in ("", "another", made, proved_id(made)):
        assert not is_proved(made, proof)
    ends = {proved_id(f"{number}")[17:] for number in range(100)}
    assert len(ends) == 100 and len({proved_id(f"{number}")[:12] for number in range(100)}) == 100


def test_processes_of_an_earlier_version_speak_without_a_proof() -> None:
    assert is_proved(uuid.uuid4().hex, "") and is_proved("0" * 32, "")
