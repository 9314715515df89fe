"""Runs put together of several families: a harder question than each by itself, as nobody marks where one ends.

The parts are drawn from lists that stay as they are: a family that is new would change every draw, and with it the
figures that detectors are compared by. Its own traces measure a new family.
"""

from random import Random

from tests.loops.traces import Label, Trace, Turn, benign_trace, looping_trace

MOST_TURNS = 95
"""A trace stays below the world's limit of steps."""

BENIGN_PARTS = (
    *("a_batch_of_checks", "a_batch_of_writes", "a_batch_together", "a_list_and_its_items", "a_total_after_every_item"),
    *("chapters_in_turn", "denied_then_something_else", "errors_of_several_kinds", "errors_that_are_overcome"),
    *("failures_shrink", "looking_twice", "one_file_grows", "one_tool_gets_on", "outages_of_a_server", "paging"),
    *("plain_work", "polling", "refusals_that_get_better", "retrying_after_an_outage", "searches_that_find_nothing"),
    *("several_fixes_until_one_helps", "text_only", "two_agents_talk", "two_agents_work_together"),
    *("two_rounds_of_asking", "walking"),
)

LOOPING_PARTS = (
    *("a_loop_after_long_work", "an_error_and_a_step_that_does_nothing", "carousel", "cycle_of_2", "cycle_of_3"),
    *("cycle_of_4", "cycle_of_5", "cycle_of_6", "cycle_with_polls", "cycle_with_volatile_results"),
    *("denied_again_and_again", "edit_and_test_in_circles", "edits_that_undo_each_other", "equal_calls"),
    *("equal_calls_between_polls", "equal_calls_of_several_agents", "equal_calls_with_new_results", "equal_errors"),
    *("equal_errors_between_outages", "errors_of_one_class", "errors_that_differ_in_details"),
    *("handing_over_after_the_same_look", "keys_and_white_space_differ", "order_of_calls_differs"),
    *("other_words_for_the_same_search", "ping_pong", "ping_pong_in_other_words", "refused_decisions"),
    *("the_same_page_again", "the_same_search_but_for_its_timing", "the_same_write_again", "two_refusals_in_turn"),
    *("unknown_tools", "unknown_tools_of_a_tool", "unreadable_answers", "write_and_read_back_in_circles"),
)


def _benign_turns(rng: Random) -> tuple[Turn, ...]:
    """Return a benign run without its answer."""
    return benign_trace(rng.choice(BENIGN_PARTS), rng.randrange(10**6)).turns[:-1]


def mixed(count: int, seed: int = 7) -> list[Trace]:
    """Return *count* runs of three benign parts, and as many that begin a loop after a benign part."""
    rng, made = Random(seed), []
    for number in range(count):
        turns = tuple(turn for _ in range(3) for turn in _benign_turns(rng))[:MOST_TURNS]
        made.append(Trace(family="three_benign_parts", seed=number, turns=turns, label=Label(loops=False), restarts=()))
    for number in range(count):
        before = _benign_turns(rng)
        loop = looping_trace(rng.choice(LOOPING_PARTS), rng.randrange(10**6))
        begin, until = len(before) + loop.label.earliest, len(before) + loop.label.latest
        label = Label(loops=True, earliest=begin, latest=until)
        turns = (*before, *loop.turns)
        made.append(Trace(family="a_loop_after_work", seed=number, turns=turns, label=label, restarts=(begin,)))
    return made
