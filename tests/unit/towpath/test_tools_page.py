"""The examples of docs/tools.md are what they say: they load, declare their classes and do what the text promises."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.places import ROOT

from towpath import DidNotHappen, Happened, ToolContext, Unclear
from towpath.hooks import HookEvent
from towpath.toolbox import collect, load_module
from towpath_worker.core.results import encode_result

PAGE = ROOT / "docs" / "tools.md"


def example(folder: Path, name: str) -> ModuleType:
    """Write one named block into *folder* and load it as a worker does."""
    (text,) = re.findall(rf"^```python {name}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    place = folder / f"docs_{name}"
    place.write_text(text, "utf-8")
    return load_module(str(place))


@pytest.fixture
def payments() -> Iterator[tuple[str, list[str]]]:
    """A target that remembers keys: its address, and the keys that it was given."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_POST(self) -> None:
            keys.append(self.headers["Idempotency-Key"])
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"charged": order, "first": keys.count(keys[-1]) == 1}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", keys
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_keyed_target_gets_the_same_key_from_every_attempt(
    folder: Path, payments: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = payments
    monkeypatch.setenv("PAYMENTS_URL", url)
    module = example(folder, "payments.py")
    assert module.charge.spec.effect_class == "idempotent"
    first = ToolContext()
    again = ToolContext(execution_id=first.execution_id, attempt=2)
    assert module.charge("A-1", 900, first)["first"] and not module.charge("A-1", 900, again)["first"]
    module.charge("A-1", 900, ToolContext())
    assert keys[0] == keys[1] != keys[2]


async def test_the_secret_of_the_example_is_no_argument(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refund = example(folder, "refunds.py").refund
    assert list(refund.spec.parameters["properties"]) == ["order_id"]
    monkeypatch.setenv("SHOP_KEY", "docs-secret-0815")
    found = await refund(**refund.bind({"order_id": "A-1"}, ToolContext()))
    assert found.endswith("docs-secret-0815")
    assert encode_result(found).value == "A-1 is refunded by whoever knows [redacted]"


def test_the_probe_of_the_example_answers_in_all_three_ways(folder: Path) -> None:
    module = example(folder, "shipping.py")
    context = ToolContext()
    assert module.send.spec.has_probe
    assert module.shipped("A-1", context) == DidNotHappen()
    assert isinstance(module.shipped("lost", context), Unclear)
    sent = module.send("A-1", context)
    assert module.shipped("A-1", context) == Happened(sent)


async def test_the_program_of_the_example_runs(folder: Path) -> None:
    module = example(folder, "programs.py")
    assert await module.render(3, ToolContext()) == "1\n2\n3\n"


def test_every_example_is_a_module_of_tools(folder: Path) -> None:
    names = re.findall(r"^```python (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    for name in names:
        tools, _ = collect([example(folder, name)])
        assert len(tools) == (3 if name == "existing.py" else 1), name


def test_what_is_there_already_becomes_tools(folder: Path) -> None:
    tools, _ = collect([example(folder, "existing.py")])
    find, send, refund = tools
    assert find("A-1") == "https://shop.example/orders/A-1"
    assert (list(send.spec.parameters["properties"]), send("ann", "hi")) == (["to", "text"], "support to ann: hi")
    assert refund.function(**refund.bind({"order-id": "A-1", "amount": 100}, ToolContext())) == {
        "order-id": "A-1",
        "amount": 100,
    }


def test_what_is_kept_for_a_run_is_given_back_when_the_run_ends_and_not_before(folder: Path) -> None:
    module = example(folder, "sessions.py")
    (found,), (forget,) = collect([module])
    one, other = ToolContext(), ToolContext()
    for item in ("tea", "salt", "tea"):
        found.function(item, one)
    found.function("milk", other)
    forget(HookEvent(name=forget.event, run_id=one.run_id))
    forget(HookEvent(name=forget.event, run_id=one.run_id))
    assert (forget.event, module.BASKETS) == ("run_finished", {other.run_id: ["milk"]})
