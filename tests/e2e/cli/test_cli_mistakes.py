"""What people get wrong at a platform is told by place, cause and cure; the messages are golden."""

from tests.mistakes.cases import mistakes_of, read_golden, section
from tests.mistakes.making import make_mistakes
from tests.support.platform.sample_platform import ServedSample


def test_every_mistake_is_told_as_it_is_written_down(served: ServedSample) -> None:
    mistakes = mistakes_of("platform")
    said = make_mistakes(mistakes, served)
    golden = read_golden()
    for one in mistakes:
        assert section(one, said[one.name]) == golden.get(one.name), "uv run python -m tests.mistakes write"
