"""What people get wrong before a platform is asked is told by place, cause and cure; the messages are golden."""

import re

from tests.mistakes.cases import KINDS, mistakes_of, read_golden, section
from tests.mistakes.making import make_mistakes

RAW = (
    "Traceback",
    "errors.pydantic.dev",
    "validation error",
    "Extra inputs",
    "Input should",
    "[Errno",
    " object at 0x",
)
DOUBLED = re.compile(r"[?!:;,]\.(?!\.)|(?<!\.)\.\.(?!\.)|[.?!:][:;](?= |$)", re.MULTILINE)
UNFILLED = re.compile(r"towpath [a-z ]+ (RUN|GATE|ERASURE|NETWORK)\b")
HOW = "what is said has changed: uv run python -m tests.mistakes write, and read the change"


def test_every_mistake_is_told_as_it_is_written_down() -> None:
    mistakes = mistakes_of("offline")
    said = make_mistakes(mistakes)
    golden = read_golden()
    for one in mistakes:
        assert section(one, said[one.name]) == golden.get(one.name), HOW


def test_the_golden_file_has_every_mistake_once() -> None:
    names = [one.name for kind in KINDS for one in mistakes_of(kind)]
    assert sorted(names) == sorted(read_golden())
    assert len(names) > 81


def test_no_message_shows_what_a_library_said_of_itself() -> None:
    raw = {name for name, text in read_golden().items() if any(word in text for word in RAW)}
    assert raw == set()


def test_no_message_ends_a_sentence_twice_or_leaves_a_known_id_out() -> None:
    """What the person wrote stands behind |."""
    for name, text in read_golden().items():
        said = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "==")))
        assert not DOUBLED.search(said), name
        assert not UNFILLED.search(said), name
