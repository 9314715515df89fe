"""Keys are listed in pages, read where a gate is handed over, and who has many of them made keeps no others waiting.

Beside them what a key has to have before a model is tried with the deciders' own.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from tests.support.gateway.keyed_gateway import Place, Servers, keyed_gateway
from tests.support.platform.platform_peer import PlatformPeer

from towpath_contracts import rpc
from towpath_contracts.decisions.model_checks import ModelChecked
from towpath_contracts.runs.views import GatePage, GateView


@pytest.fixture(scope="module")
def servers(
    postgres_dsn: str, template_database: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    with keyed_gateway(postgres_dsn, template_database, nats_url, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
async def place(servers: Servers, nats_url: str) -> AsyncIterator[Place]:
    async with PlatformPeer(nats_url) as peer:
        yield Place(servers.gateway, peer, servers.role)
    await servers.emptied()


async def test_keys_are_listed_in_pages_however_many_a_project_has(place: Place) -> None:
    async with await place.client("shop", "alice") as alice, await place.client("bank", "bob") as bob:
        for _ in range(5):
            assert (await alice.post("/v1/keys", json={"caller": "robot", "scopes": ["runs:read"]})).is_success
        pages, after = [], ""
        while not pages or pages[-1]["next_after"]:
            pages.append((await alice.get(f"/v1/keys?limit=2{after}")).json())
            after = f"&after={pages[-1]['next_after']}"
        assert [len(page["keys"]) for page in pages] == [2, 2, 2]
        prefixes = [key["prefix"] for page in pages for key in page["keys"]]
        assert prefixes == [key["prefix"] for key in (await alice.get("/v1/keys")).json()["keys"]]
        assert (await bob.get(f"/v1/keys?after={prefixes[0]}")).json()["keys"] != []
        assert (await alice.get("/v1/keys?limit=501")).json()["code"] == "request_invalid"
        for nonsense in ("nonsense", "%00", "a%00b"):
            assert (await alice.get(f"/v1/keys?after={nonsense}")).json()["keys"] == []
            assert (await alice.delete(f"/v1/keys/{nonsense}")).json()["code"] == "key_not_found"


async def test_a_key_is_made_while_another_project_makes_many(place: Place) -> None:
    async with await place.client("shop", "alice") as alice, await place.client("bank", "bob") as bob:
        wanted = {"caller": "robot", "scopes": ["runs:read"]}
        await bob.get("/v1/keys")  # connected before the others keep this process busy
        for number in range(3):  # on a busy machine all that find room may be made before this process asks
            many = [asyncio.ensure_future(alice.post("/v1/keys", json=wanted)) for _ in range(120)]
            await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
            clerk = {**wanted, "caller": f"clerk-{number}"}
            assert (await bob.post("/v1/keys", json=clerk)).status_code == 201
            answers = {(await one).status_code for one in many}
            assert 201 in answers and answers <= {201, 429}, "what finds no room is told to come again"
            made, mine = (await alice.get("/v1/keys?limit=500")).json(), (await bob.get("/v1/keys?limit=50")).json()
            (at,) = [key["created_at"] for key in mine["keys"] if key["caller"] == clerk["caller"]]
            if at < max(key["created_at"] for key in made["keys"]):
                return
        pytest.fail("it waited for all of them, each time")


async def test_a_gate_is_handed_over_with_what_the_keys_of_the_other_may_do(place: Place) -> None:
    peer, approval = (
        place.peer,
        GateView(
            gate_id=uuid.uuid4(),
            run_id=uuid.uuid4(),
            project="shop",
            gate_type="approval",
            status="pending",
            reason="look",
            approval_id=uuid.uuid4(),
            opened_at=datetime.now(UTC),
            expires_at=datetime.now(UTC),
        ),
    )
    peer.answers[rpc.LIST_GATES.subject] = GatePage(gates=(approval,))
    peer.answers[rpc.DELEGATE_GATE.subject] = approval
    await place.key("shop", "vera", (), roles=("viewer",))
    await place.key("bank", "bob", (), roles=("approver",))
    gone = await place.key("shop", "gone", (), roles=("approver",))
    async with await place.client("shop", "root", ["keys:admin"]) as admin:
        assert (await admin.delete(f"/v1/keys/{gone[4:16]}")).status_code == 204
    async with await place.client("shop", "paul", (), roles=("approver",)) as paul:
        doubted = await paul.post(f"/v1/gates/{approval.gate_id}/delegate", json={"to": "nobody-yet"})
        assert (doubted.status_code, doubted.json()["code"]) == (409, "delegate_unknown")
        stranger = await paul.post(f"/v1/gates/{approval.gate_id}/delegate", json={"to": "bob"})
        assert stranger.json()["code"] == "delegate_unknown", "another project's people are nobody here"
        assert peer.requests(rpc.DELEGATE_GATE.subject) == []
        for to in ("vera", "paul", "nobody-yet", "role:approver", "gone"):
            done = await paul.post(
                f"/v1/gates/{approval.gate_id}/delegate", json={"to": to, "unknown": to == "nobody-yet"}
            )
            assert done.status_code == 200, done.text
        for wrong in ("", "a b", "a\u202eb", "x" * 255):
            refused = await paul.post(f"/v1/gates/{approval.gate_id}/delegate", json={"to": wrong})
            assert refused.status_code == 422
        await paul.get("/v1/gates?assigned_to=me")
    asked = peer.requests(rpc.DELEGATE_GATE.subject)
    assert [one["known_roles"] for one in asked] == [["viewer"], ["approver"], None, None, None]
    assert all((one["actor"], one["roles"]) == ("paul", ["approver"]) for one in asked)
    mine = peer.requests(rpc.LIST_GATES.subject)[-1]["assigned_to"]
    assert mine[0] == "paul" and mine[-1] == "role:approver"


async def test_a_model_is_tried_by_an_operator_alone_and_what_is_found_is_no_refusal(place: Place) -> None:
    found = ModelChecked(model="gemini:x", works=False, code="model_unauthorized", detail="no", remedy="Set a key.")
    place.peer.answers[rpc.CHECK_MODEL.subject] = found
    async with await place.client("shop", "olga", roles=("operator",)) as olga:
        told = await olga.post("/v1/models/check", json={"model": "gemini:x"})
        assert (told.status_code, ModelChecked.model_validate(told.json())) == (200, found)
        for wrong in ({}, {"model": ""}, {"model": "x" * 257}, {"model": "gemini:x", "prompt": "write a novel"}):
            assert (await olga.post("/v1/models/check", json=wrong)).status_code == 422
    (asked,) = place.peer.requests(rpc.CHECK_MODEL.subject)
    assert (asked["project"], asked["model"], asked["caller"]) == ("shop", "gemini:x", "olga")
    for scopes, roles, code in ((["runs:read"], (), "forbidden"), (["runs:operate"], ("approver",), "role_missing")):
        async with await place.client("shop", "mia", scopes, roles=roles) as mia:
            assert (await mia.post("/v1/models/check", json={"model": "gemini:x"})).json()["code"] == code
    assert len(place.peer.requests(rpc.CHECK_MODEL.subject)) == 1
