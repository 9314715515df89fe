"""The threads for what callers ask of policies, one kind of threads for each kind of question.

None of it shares a thread with the decisions about calls, and of a project one of each kind runs at a time. So whoever
has much checked waits for what they asked themselves; others wait for one turn.
"""

from dataclasses import dataclass, field
from functools import partial

from towpath_fabric.turns.fair_threads import FairThreads

MAX_WAIT_S = 2.5
"""Callers wait five seconds, and send what may be repeated anew after three and a half (`RequestSender`): what comes
later is refused while they listen, before a further try of it waits from the beginning, and computed for nobody."""

MAX_WAITING_GRANTS = 128
"""Submits of one project with conditions in their grants: each takes a fifth of a second at most, most next to none."""

MAX_WAITING_QUESTIONS = 64
"""Dry runs of one project, and looks at its rights, rules and changes: usual ones take a few milliseconds."""

MAX_ANSWER_CHARS = 1_500_000
"""Answers of more characters fit no message, of a megabyte, and are refused before they are built."""

MAX_WAIT_FOR_DIFF_S = 2.0
"""A piece of a comparison takes two seconds itself."""

_fair_threads = partial(FairThreads, max_wait_s=MAX_WAIT_S)


@dataclass(frozen=True, slots=True)
class PolicyThreads:
    """`grants` check the conditions of tasks, `questions` answer dry runs and show rights and rules.

    `texts` read policies, `diffs` compare.
    """

    grants: FairThreads = field(
        default_factory=partial(_fair_threads, max_waiting=MAX_WAITING_GRANTS, name="policy-grants")
    )
    questions: FairThreads = field(
        default_factory=partial(_fair_threads, 2, max_waiting=MAX_WAITING_QUESTIONS, name="policy-questions")
    )
    texts: FairThreads = field(default_factory=partial(_fair_threads, 2, name="policy-texts"))
    diffs: FairThreads = field(
        default_factory=partial(FairThreads, max_wait_s=MAX_WAIT_FOR_DIFF_S, name="policy-diffs")
    )
