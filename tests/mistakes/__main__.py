"""`python -m tests.mistakes write` writes what is said today to every mistake into the golden file.

It starts the platform that some of them need. The change is to be read, as a newcomer would read the messages.
"""

import sys

from tests.mistakes.cases import mistakes_of, write_golden
from tests.mistakes.making import make_mistakes
from tests.support.platform.sample_platform import served_sample


def _write() -> None:
    offline, platform = mistakes_of("offline"), mistakes_of("platform")
    said = make_mistakes(offline)
    with served_sample() as served:
        said |= make_mistakes(platform, served)
    write_golden([*offline, *platform], said)


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit(__doc__)
    _write()
