"""A network as a drawing: every agent is in it once, nothing overlaps, and the same is said in words."""

import itertools
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import yaml
from tests.support.places import EXAMPLES

from towpath_console.drawings.graph import MOST_ANSWERS, GraphEdge, GraphLayout, GraphVisits, network_graph
from towpath_console.drawings.graph_forms import graph_mermaid, graph_svg, graph_text, line_points
from towpath_console.drawings.graph_rows import NODE_HEIGHT, NODE_WIDTH, ROW_GAP, Point, _RowSearch

TRIED = 122
"""Places that are tried in a network of as many lines as there can be."""

BILLING = GraphVisits(
    steps={"triage": 1, "billing": 3},
    edges={("triage", "billing"): 2},
    answered={"billing": 1},
    current="billing",
)


def support() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "support" / "network.yaml").read_text())
    return found


def tangled(agents: int = 50) -> dict[str, Any]:
    """Return a network in which everybody hands over to three others, forwards and back."""
    return {
        "name": "tangled",
        "agents": [
            {
                "key": f"agent_{i}",
                "is_default": i == 3,
                "allow_respond": i % 7 == 0,
                "allowed_routes": [f"agent_{n % agents}" for n in (i * 3, i - 1, i + 1)],
            }
            for i in range(agents)
        ],
    }


ROUTES = {
    "triage": "billing tech returns shipping accounts sales",
    "billing": "fraud accounts triage",
    "tech": "escalation feedback triage",
    "returns": "shipping billing",
    "shipping": "tech returns",
    "accounts": "legal onboarding",
    "fraud": "legal escalation billing",
    "legal": "escalation",
    "escalation": "triage legal",
    "feedback": "",
    "onboarding": "sales accounts",
    "sales": "onboarding billing",
}
ANSWERING = {"billing", "tech", "feedback", "sales", "legal"}


def help_desk() -> dict[str, Any]:
    """Return a network of twelve agents, as people have them."""
    agents = [
        {"key": key, "allowed_routes": routes.split(), "allow_respond": key in ANSWERING}
        for key, routes in ROUTES.items()
    ]
    return {"name": "helpdesk", "default_agent_key": "triage", "agents": agents}


def crossings(layout: GraphLayout) -> int:
    """Count how often two lines cross, as they are drawn."""
    lines = [line_points(one) for one in layout.edges if one.points and not one.is_second]
    return sum(
        _cross(*part, *other)
        for line, beside in itertools.combinations(lines, 2)
        for part in itertools.pairwise(line)
        for other in itertools.pairwise(beside)
    )


def _cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    def turn(one: Point, other: Point, third: Point) -> float:
        return (other[0] - one[0]) * (third[1] - one[1]) - (other[1] - one[1]) * (third[0] - one[0])

    return turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0


def line(layout: GraphLayout, source: str, target: str) -> GraphEdge:
    return next(one for one in layout.edges if (one.source, one.target) == (source, target))


def edge(layout: GraphLayout, source: str, target: str) -> int:
    return next(one.count for one in layout.edges if (one.source, one.target) == (source, target))


def test_edges_that_a_run_took_are_counted_and_the_others_are_there() -> None:
    layout = network_graph(support(), BILLING)
    assert [node.key for node in layout.nodes if not node.is_answer] == ["triage", "billing", "tech"]
    assert (edge(layout, "triage", "billing"), edge(layout, "triage", "tech"), edge(layout, "billing", "answer")) == (
        2,
        0,
        1,
    )
    assert [node.key for node in layout.nodes if node.current] == ["billing"]
    assert [node.key for node in layout.nodes if node.first] == ["triage"]


def test_a_spec_and_its_snapshot_are_drawn_alike() -> None:
    spec = support()
    snapshot = {
        "network": "support",
        "default_agent_key": "triage",
        "agents": {agent["key"]: agent for agent in spec["agents"]},
    }
    assert network_graph(spec, BILLING) == network_graph(snapshot, BILLING)


def test_boxes_stand_apart_and_inside() -> None:
    layout = network_graph(tangled())
    assert len(layout.nodes) == 50, "so many answer that the boxes say it"
    for number, node in enumerate(layout.nodes):
        assert 0 <= node.x <= layout.width - NODE_WIDTH and 0 <= node.y <= layout.height - NODE_HEIGHT
        for other in layout.nodes[number + 1 :]:
            assert abs(node.x - other.x) >= NODE_WIDTH or abs(node.y - other.y) >= NODE_HEIGHT, (node, other)
    assert all(0 <= x <= layout.width and 0 <= y <= layout.height for one in layout.edges for x, y in line_points(one))


def test_no_line_runs_through_a_box() -> None:
    for spec in (tangled(20), help_desk(), support()):
        layout = network_graph(spec)
        for one in layout.edges:
            for x, y in line_points(one)[1:-1]:
                inside = [n.key for n in layout.nodes if n.x < x < n.x + NODE_WIDTH and n.y < y < n.y + NODE_HEIGHT]
                assert inside == [], one


def test_few_lines_cross() -> None:
    drawn = [network_graph(spec) for spec in (support(), help_desk(), tangled(20), tangled())]
    assert [len([one for one in layout.edges if one.points and not one.is_second]) for layout in drawn] == [
        5,
        21,
        40,
        98,
    ]
    assert [crossings(layout) for layout in drawn] == [0, 1, 20, 134]
    assert [layout.height for layout in drawn] == [184.0, 529.1, 562.8, 1474.0], "lines are as level as they can be"


def test_a_network_in_which_everybody_hands_over_to_everybody_is_drawn_with_bounded_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = 0

    def count(search: Any, column: int) -> float:
        nonlocal tried
        tried += 1
        return float(around(search, column))

    around = _RowSearch._around
    monkeypatch.setattr(_RowSearch, "_around", count)
    keys = [f"mesh-{number}" for number in range(50)]
    agents = [{"key": key, "allowed_routes": [other for other in keys if other != key]} for key in keys]
    layout = network_graph({"name": "mesh", "default_agent_key": keys[0], "agents": agents})
    assert len([one for one in layout.edges if one.points]) == 50 * 49
    assert tried == TRIED
    outside = [one.bulge for one in layout.edges if one.bulge]
    assert {abs(bulge) for bulge in outside} == {16.0, 34.0, 43.2}


def test_lines_have_places_of_their_own_at_a_box_and_go_around_each_other() -> None:
    layout = network_graph(help_desk())
    (triage,) = (node for node in layout.nodes if node.key == "triage")
    begins = sorted(one.points[0][1] - triage.y for one in layout.edges if one.source == "triage")
    assert len(set(begins)) == 6 and 9.5 < begins[0] < 15 and begins[-1] < NODE_HEIGHT - 9.5
    assert line(layout, "fraud", "escalation").bulge == 16.0
    assert line(layout, "legal", "escalation").bulge == 25.0
    reach = line(layout, "legal", "escalation").points[0][0] + 25.0
    assert layout.width == max(reach + 7.0, layout.nodes[-1].x + NODE_WIDTH + 30.0)
    lowest = min(one.points[-1][1] - triage.y for one in layout.edges if one.target == "triage")
    assert round(lowest, 1) == 9.6


def test_two_agents_that_hand_over_to_each_other_have_one_line_with_two_tips() -> None:
    layout = network_graph(help_desk())
    there, back = line(layout, "triage", "billing"), line(layout, "billing", "triage")
    assert there.points == back.points[::-1] and (there.is_second, back.is_second) == (False, True)
    svg = str(graph_svg(layout))
    edges = [one for one in layout.edges if one.points]
    assert svg.count('class="tip') == len(edges)
    assert svg.count('class="edge') == len(edges) - sum(one.is_second for one in edges) == 21
    both = GraphVisits(edges={("triage", "billing"): 2, ("billing", "triage"): 1})
    drawn = str(graph_svg(network_graph(help_desk(), both)))
    assert drawn.count('class="edge seen"') == 1 and drawn.count('class="tip seen"') == 2
    assert ">2\N{MULTIPLICATION SIGN}<" in drawn and ">1\N{MULTIPLICATION SIGN}<" in drawn
    one_way = str(graph_svg(network_graph(help_desk(), GraphVisits(edges={("billing", "triage"): 1}))))
    assert one_way.count('class="edge seen"') == 1 and one_way.count('class="tip seen"') == 1


def test_boxes_of_one_column_that_are_next_to_each_other_are_joined_straight() -> None:
    layout = network_graph(help_desk())
    (x, begin), (end_x, end) = line(layout, "returns", "billing").points
    assert x == end_x and end - begin == ROW_GAP
    assert f"M {x:g} {end:g} l -4.5 -8 l 9 0 z" in str(graph_svg(layout)), "its tip points down"


def test_where_many_answer_their_boxes_say_it_and_no_line_does() -> None:
    few = {"agents": [{"key": key, "allow_respond": True} for key in "abc"]}
    many = {"agents": [{"key": key, "allow_respond": True} for key in "abcd"]}
    assert len(few["agents"]) == MOST_ANSWERS
    assert [node.key for node in network_graph(few).nodes if node.is_answer] == ["answer"]
    layout = network_graph(many, GraphVisits(steps={"a": 1}, answered={"a": 1}))
    assert not any(node.is_answer for node in layout.nodes) and all(node.answers for node in layout.nodes)
    svg = str(graph_svg(layout))
    assert ">1 step · no tools · answers 1\N{MULTIPLICATION SIGN}<" in svg and ">no tools · answers<" in svg
    assert "→ answer" in graph_text(layout) and 'n4(["answer"])' in graph_mermaid(layout)
    assert "n1 -.-> n4" in graph_mermaid(layout) and "n0 -->" in graph_mermaid(layout)


def test_a_team_delegates_and_a_workflow_goes_on() -> None:
    team = yaml.safe_load((EXAMPLES / "research_team" / "network.yaml").read_text())
    text = graph_text(network_graph(team))
    assert "→ costs (delegates)" in text and text.startswith("lead [starts]: report.save")
    flow = {
        "name": "f",
        "swarm": {"mode": "workflow", "flow": "a >> (b | c) >> d"},
        "agents": [{"key": k} for k in "abcd"],
    }
    layout = network_graph(flow)
    pairs = {(one.source, one.target) for one in layout.edges}
    assert pairs == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "answer")}
    assert network_graph({"swarm": {"mode": "workflow", "flow": "a >>"}, "agents": [{"key": "a"}]}).nodes


def test_a_transfer_that_no_route_allows_is_drawn_where_a_run_took_it() -> None:
    forced = GraphVisits(edges={("tech", "triage"): 1, ("tech", "nobody"): 1})
    layout = network_graph(support(), forced)
    assert edge(layout, "tech", "triage") == 1
    assert not any(one.target == "nobody" for one in layout.edges)


def test_the_svg_says_in_words_what_it_shows_and_holds_only_text() -> None:
    hostile = '</text><script>alert(1)</script>"\u202e\u0000'
    spec = {"name": hostile, "agents": [{"key": hostile, "description": hostile, "equipped_tools": [hostile]}]}
    for spec_shown in (support(), spec, {}):
        layout = network_graph(spec_shown, BILLING)
        root = ET.fromstring(str(graph_svg(layout, alone=True)))
        kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert kinds <= {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
        assert "style" not in str(graph_svg(layout)), "pages allow no style of their own"
    assert "→ billing 2" in str(graph_svg(network_graph(support(), BILLING)))


def test_mermaid_holds_hostile_names_inside_their_quotes() -> None:
    names = ['a"] --> b', "<b>&#</b>", "line\nbreak"]
    drawn = graph_mermaid(network_graph({"name": "n", "agents": [{"key": name} for name in names]}))
    assert drawn.splitlines()[1:] == [
        '  n0["a#quot;] --#gt; b"]',
        '  n1["#lt;b#gt;&#35;#lt;/b#gt;"]',
        '  n2["line break"]',
    ]
    assert 'n0 -->|"2' in graph_mermaid(network_graph(support(), BILLING))


def test_an_empty_network_is_drawn_all_the_same() -> None:
    layout = network_graph({})
    assert (layout.nodes, layout.edges) == ((), ()) and layout.width > 0 < layout.height


def test_a_line_reaches_its_target_from_the_side_that_it_comes_from() -> None:
    layout = network_graph(support(), GraphVisits(edges={("tech", "triage"): 1}))
    leftward = {(one.source, one.target) for one in layout.edges if one.leftward}
    assert (
        ("tech", "triage") in leftward and ("triage", "tech") not in leftward and ("billing", "answer") not in leftward
    )


def test_a_name_that_its_box_has_no_room_for_is_cut_and_stands_whole_beside_it() -> None:
    agents = [
        {"key": "a" * 17, "equipped_tools": ["t" * 30]},
        {"key": "b" * 21, "equipped_tools": ["u" * 31]},
        {"key": "c" * 22},
    ]
    shown = str(graph_svg(network_graph({"agents": agents})))
    for whole in ("a" * 17, "b" * 21, "t" * 30):
        assert f">{whole}</text>" in shown
    for cut in ("c" * 21, "u" * 30):
        assert f">{cut[:-1]}…</text>" in shown and f"<title>{'b' * 21} · {'u' * 31}</title>" in shown
    first = str(graph_svg(network_graph({"agents": [{"key": "a" * 18}]})))
    assert f">{'a' * 16}…</text>" in first, "since a mark stands beside who begins"
