"""A network as a drawing: every agent is in it once, nothing overlaps, and the same is said in words."""

import xml.etree.ElementTree as ET
from typing import Any

import yaml
from tests.support.places import EXAMPLES

from towpath_console.drawings.graph import NODE_HEIGHT, NODE_WIDTH, GraphLayout, GraphVisits, network_graph
from towpath_console.drawings.graph_forms import graph_mermaid, graph_svg, graph_text

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
    assert len(layout.nodes) == 51
    for number, node in enumerate(layout.nodes):
        assert 0 <= node.x <= layout.width - NODE_WIDTH and 0 <= node.y <= layout.height - NODE_HEIGHT
        for other in layout.nodes[number + 1 :]:
            assert abs(node.x - other.x) >= NODE_WIDTH or abs(node.y - other.y) >= NODE_HEIGHT, (node, other)
    assert all(0 <= x <= layout.width and 0 <= y <= layout.height for one in layout.edges for x, y in one.points)


def test_no_line_runs_through_a_box() -> None:
    layout = network_graph(tangled(20))
    for one in layout.edges:
        for x, y in one.points[1:-1]:
            inside = [n.key for n in layout.nodes if n.x < x < n.x + NODE_WIDTH and n.y < y < n.y + NODE_HEIGHT]
            assert inside == [], one


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
