"""Keys, scopes, roles and projects: who may ask the gateway for what."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from tests.support.gateway.keyed_gateway import Place, Servers, keyed_gateway, make_key
from tests.support.gateway.operations import MAY, OPERATIONS, TASK
from tests.support.platform.platform_peer import PlatformPeer

from towpath_contracts import rpc
from towpath_contracts.dead_letters import DeadLetterPage
from towpath_contracts.runs.views import ActionDone, GatePage, GateView
from towpath_contracts.tools.access import AgentPermissions, AuditPage, PolicyApplied, ToolsDescribed
from towpath_gateway.__main__ import main
from towpath_gateway.core.api_keys import OPERATE_PLATFORM, SCOPES, key_commitment, secret_digest


@pytest.fixture(scope="module")
def servers(
    postgres_dsn: str, template_database: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("gateway")
    with keyed_gateway(postgres_dsn, template_database, nats_url, folder) as running:
        yield running


@pytest.fixture
async def place(servers: Servers, nats_url: str) -> AsyncIterator[Place]:
    async with PlatformPeer(nats_url) as peer:
        yield Place(servers.gateway, peer, servers.role)
    await servers.emptied()


async def test_nobody_is_let_in_without_a_valid_key(place: Place) -> None:
    key = await place.key("shop", "alice")
    prefix, _, secret = key.partition(".")
    bad = [
        None,
        "Bearer",
        "Bearer nonsense",
        f"Basic {key}",
        f"Bearer {prefix}.{'A' * len(secret)}",
        f"Bearer twp_{'a' * 12}.{secret}",
        f"Bearer {key}x",
        f"Bearer {prefix}.{secret}\u0000".encode().decode("latin-1").replace("\x00", "%00"),
    ]
    async with place.gateway.client() as client:
        for header in bad:
            answer = await client.get("/v1/runs", headers={"Authorization": header} if header else {})
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), header
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await client.post("/run", json=TASK)).status_code == 401
        assert (await client.get("/livez")).status_code == 200
    assert place.peer.asked == []
    async with place.gateway.client(key) as client:
        assert (await client.get("/v1/runs")).status_code == 200


async def test_a_project_never_sees_the_runs_of_another(place: Place) -> None:
    async with (
        await place.client("shop", "alice") as alice,
        await place.client("bank", "bob") as bob,
    ):
        run_id = (await alice.post("/v1/runs", json=TASK)).json()["run_id"]
        assert place.peer.requests("task.submit.alice")
        assert (await alice.get(f"/v1/runs/{run_id}")).json()["project"] == "shop"
        assert (await bob.get("/v1/runs")).json()["runs"] == []
        for path in ("", "/events", "/history", f"/tools/{uuid.uuid4()}", f"/tools/{uuid.uuid4()}/output"):
            answer = await bob.get(f"/v1/runs/{run_id}{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found"), path
        streamed = await bob.get(f"/v1/runs/{run_id}/events", headers={"Accept": "text/event-stream"})
        assert streamed.status_code == 404
        assert (await bob.post(f"/v1/runs/{run_id}/cancel")).status_code == 404
        for _, body in place.peer.asked:
            assert body.get("project", "shop") in {"shop", "bank"}


async def test_the_project_is_never_taken_from_the_request(place: Place) -> None:
    async with await place.client("shop", "alice") as alice:
        refused = await alice.post("/v1/runs", json={**TASK, "project": "bank"})
        assert (refused.status_code, (await alice.get("/v1/runs?project=bank")).status_code) == (422, 422)
        await alice.get("/v1/runs")
        assert place.peer.requests(rpc.LIST_RUNS.subject)[0]["project"] == "shop"


async def test_every_operation_needs_its_scope(place: Place) -> None:
    async with place.gateway.client() as anybody:
        described = (await anybody.get("/openapi.json")).json()["paths"]
    operations = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert len(OPERATIONS) + len([path for path in operations if "/problems" in path]) == len(operations)
    for scope in SCOPES:
        others = [other for other in SCOPES if other != scope]
        async with await place.client("shop", f"no-{scope.replace(':', '-')}", others) as client:
            for needed, method, path, body in OPERATIONS:
                if needed == scope:
                    answer = await client.request(method, path, json=body)
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, path)
                    assert scope in answer.json()["detail"]
    assert place.peer.asked == []


@pytest.mark.parametrize("role", MAY)
async def test_a_key_of_a_role_opens_exactly_the_routes_of_that_role(place: Place, role: str) -> None:
    place.peer.on_submit = place.peer.finish
    async with await place.client("shop", role.replace("_", "-"), (), roles=(role,)) as client:
        for needed, method, path, body in OPERATIONS:
            answer = await client.request(method, path, json=body)
            refused = answer.status_code == 403 and answer.json()["code"] == "forbidden"
            assert refused == (needed not in {"", *MAY[role]}), (role, method, path, answer.text)


async def test_a_key_needs_scopes_or_a_role_that_has_some(place: Place) -> None:
    async with await place.client("shop", "alice", roles=("approver", "auditor")) as alice:
        made = await alice.post("/v1/keys", json={"caller": "mia", "roles": ["approver"]})
        assert made.json()["scopes"] == sorted(MAY["approver"])
        named = await alice.post("/v1/keys", json={"caller": "tom", "roles": ["approver"], "scopes": ["runs:read"]})
        assert named.json()["scopes"] == ["runs:read"]
        nothing = await alice.post("/v1/keys", json={"caller": "eve", "roles": []})
        assert (nothing.status_code, nothing.json()["code"]) == (422, "request_invalid")
    async with await place.client("shop", "bob", ["keys:admin", *MAY["viewer"]], roles=("auditor", "viewer")) as bob:
        more = await bob.post("/v1/keys", json={"caller": "kim", "roles": ["auditor"]})
        assert (more.status_code, "audit:read" in more.json()["detail"]) == (403, True)
        assert (await bob.post("/v1/keys", json={"caller": "kim", "roles": ["viewer"]})).status_code == 201


async def test_letters_of_nobody_are_for_whoever_operates_the_platform(place: Place) -> None:
    """Not for the keys' administrator of some project, who can't give himself that right either."""
    place.peer.answers[rpc.LIST_DEAD_LETTERS.subject] = DeadLetterPage(letters=())
    place.peer.answers[rpc.SETTLE_DEAD_LETTER.subject] = ActionDone()
    async with (
        await place.client("other", "mallory", roles=("operator",)) as admin,
        await place.client("shop", "ann", [*SCOPES, OPERATE_PLATFORM], roles=("operator",)) as operator,
    ):
        for client, unowned in ((admin, False), (operator, True)):
            assert (await client.get("/v1/dead-letters")).status_code == 200
            assert (await client.get("/v1/dead-letters/7")).status_code == 404
            assert (await client.post("/v1/dead-letters/7/discard", json={"reason": "r"})).status_code == 200
            assert (await client.post("/v1/dead-letters/7/requeue", json={"reason": "r"})).status_code == 200
            assert [body["unowned"] for subject, body in place.peer.asked if "dead_letter" in subject] == [unowned] * 4
            place.peer.asked.clear()
        wanted = {"caller": "helper", "scopes": ["runs:operate", OPERATE_PLATFORM]}
        refused = await admin.post("/v1/keys", json=wanted)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await operator.post("/v1/keys", json=wanted)).status_code == 201


async def test_a_key_is_shown_once_listed_revoked_and_refused(place: Place) -> None:
    async with await place.client("shop", "alice") as alice, place.gateway.client() as anybody:
        made = await alice.post("/v1/keys", json={"caller": "robot", "scopes": ["runs:read"], "note": "nightly"})
        assert made.status_code == 201
        key, prefix = made.json()["key"], made.json()["prefix"]
        bearer = {"Authorization": f"Bearer {key}"}
        assert (await anybody.get("/v1/runs", headers=bearer)).status_code == 200
        listed = (await alice.get("/v1/keys")).json()["keys"]
        assert [entry["caller"] for entry in listed] == ["alice", "robot"]
        assert all(entry["key"] is None for entry in listed)
        assert key.partition(".")[2] not in (await alice.get("/v1/keys")).text
        assert (await alice.delete(f"/v1/keys/{prefix}")).status_code == 204
        refused = await anybody.get("/v1/runs", headers=bearer)
        assert (refused.status_code, refused.json()["detail"]) == (401, "the key was revoked")
        assert (await alice.delete("/v1/keys/bbbbbbbbbbbb")).json()["code"] == "key_not_found"


async def test_a_key_expires(place: Place) -> None:
    async with await place.client("shop", "alice", expires_in_s=4) as alice:
        assert (await alice.get("/v1/runs")).status_code == 200
        for _ in range(600):
            answer = await alice.get("/v1/runs")
            if answer.status_code == 401:
                break
            await asyncio.sleep(0.1)
        assert answer.json()["detail"] == "the key has expired"


async def test_nobody_gives_away_more_than_they_hold(place: Place) -> None:
    async with (
        await place.client("shop", "admin", ["keys:admin", "runs:read"], roles=()) as admin,
        await place.client("bank", "bob") as bob,
    ):
        for more in ({"scopes": ["runs:write"]}, {"scopes": ["runs:read"], "roles": ["approver"]}):
            answer = await admin.post("/v1/keys", json={"caller": "robot", **more})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        unknown = await bob.post("/v1/keys", json={"caller": "robot", "scopes": ["everything"]})
        assert unknown.status_code == 403
        taken = await admin.post("/v1/keys", json={"caller": "bob", "scopes": ["runs:read"]})
        assert (taken.status_code, taken.json()["code"]) == (409, "caller_taken")
        bobs = (await bob.get("/v1/keys")).json()["keys"][0]["prefix"]
        assert (await admin.delete(f"/v1/keys/{bobs}")).status_code == 404
        assert (await bob.get("/v1/keys")).status_code == 200


async def test_no_key_is_made_for_a_caller_that_reads_as_the_platform(place: Place) -> None:
    async with await place.client("shop", "admin", ["keys:admin", "runs:read"], roles=()) as admin:
        for caller in ("create-key", "Towpath", "local", "anonymous", "TAS"):
            answer = await admin.post("/v1/keys", json={"caller": caller, "scopes": ["runs:read"]})
            assert (answer.status_code, answer.json()["code"]) == (422, "actor_reserved"), caller


async def test_nobody_makes_a_key_of_a_person_who_may_more(place: Place) -> None:
    """Not now, not after the person's keys were revoked, and no earlier key gains what a later one is given."""
    await place.key("shop", "mia", ("gates:resolve",), roles=("approver",))
    async with await place.client("shop", "admin", [*SCOPES], roles=("viewer",)) as admin:
        for _ in range(2):
            refused = await admin.post("/v1/keys", json={"caller": "mia", "scopes": ["gates:resolve"]})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert "'approver'" in refused.json()["detail"]
            mias = [key["prefix"] for key in (await admin.get("/v1/keys")).json()["keys"] if key["caller"] == "mia"]
            assert (await admin.delete(f"/v1/keys/{mias[0]}")).status_code == 204
        early = await admin.post("/v1/keys", json={"caller": "tom", "scopes": ["gates:read", "gates:resolve"]})
        assert (early.status_code, early.json()["roles"]) == (201, [])
        await place.key("shop", "tom", ("gates:resolve",), roles=("approver",))
        roles = {key["prefix"]: key["roles"] for key in (await admin.get("/v1/keys")).json()["keys"]}
        assert roles[early.json()["prefix"]] == []
        assert sorted(roles.values()).count(["approver"]) == 2
    async with await place.client("shop", "head", roles=("approver", "viewer")) as head:
        assert (await head.post("/v1/keys", json={"caller": "tom", "roles": ["approver"]})).status_code == 201


async def test_making_and_revoking_a_key_are_audited_while_tool_access_is_away(place: Place, servers: Servers) -> None:
    """No tool-access service runs here: the entries wait to be sealed from the commit that they tell of."""
    first = await place.key("shop", "ann", roles=("approver",))
    used = first[4:16]
    async with place.gateway.client(first) as ann:
        made = (await ann.post("/v1/keys", json={"caller": "mia", "roles": ["approver"]})).json()["prefix"]
        for _ in range(2):
            assert (await ann.delete(f"/v1/keys/{made}")).status_code == 204
        refused = await ann.post("/v1/keys", json={"caller": "mia", "scopes": ["everything"]})
        assert refused.status_code == 403
    connection = await asyncpg.connect(servers.owner)
    try:
        rows = await connection.fetch(
            "SELECT e.phase, e.project, e.actor, e.detail::jsonb AS detail FROM tas.audit_entry e "
            "JOIN tas.audit_unsealed u USING (entry_id) WHERE e.detail::jsonb ->> 'key' = ANY ($1) ORDER BY e.entry_id",
            [used, made],
        )
    finally:
        await connection.close()
    told = [(row["phase"], row["project"], row["actor"], json.loads(row["detail"])) for row in rows]
    assert [(phase, project, actor, said["key"], said["by_key"]) for phase, project, actor, said in told] == [
        ("key.created", "shop", "create-key", used, ""),
        ("key.created", "shop", "ann", made, used),
        ("key.revoked", "shop", "ann", made, used),
    ]
    assert all((said["caller"], said["roles"]) == ("mia", ["approver"]) for *_, said in told[1:])
    wanted = sorted(SCOPES), key_commitment(used, secret_digest(first[17:]))
    assert (told[0][3]["scopes"], told[0][3]["commitment"]) == wanted


async def test_the_first_key_is_made_on_the_command_line(place: Place, monkeypatch: Any, capsys: Any) -> None:
    async def told(*arguments: str) -> tuple[int, str, str]:  # in this process, which has imported it all
        return await asyncio.to_thread(main, ["create-key", *arguments]), *capsys.readouterr()

    monkeypatch.setenv("TOWPATH_DATABASE_URL", place.dsn)
    first = ("--project", "shop", "--caller", "alice", "--scopes", "runs:read,runs:write", "gates:read")
    made = await asyncio.to_thread(make_key, place.dsn, *first)
    async with place.gateway.client(made.stdout.strip()) as alice:
        assert ((await alice.get("/v1/runs")).status_code, made.stderr) == (200, "")
        assert (await alice.get("/v1/audit")).status_code == 403
    more = ("--caller", "ann", "--scopes", "runs:write", "keys:admin", "--roles", "approver")
    status, _, warned = await told("--project", "shop", *more)
    assert (status, warned.count("warning: "), "give the application runs:write runs:read" in warned) == (0, 2, True)
    status, printed, refused = await told("--project", "bank", "--caller", "alice", "--roles", "viewer")
    assert (status, printed, refused.partition(":")[0]) == (1, "", "caller_taken")
    assert (await told("--project", "bank", "--caller", "Platform"))[2].startswith("actor_reserved:")
    wrong = await asyncio.to_thread(make_key, place.dsn, "--project", "bank", "--caller", "no spaces")
    assert (wrong.returncode, wrong.stdout, "Traceback" in wrong.stderr) == (1, "", False)


async def test_secrets_are_stored_as_digests_only(place: Place, servers: Servers) -> None:
    key = await place.key("shop", "alice")
    secret = key.partition(".")[2]
    connection = await asyncpg.connect(servers.owner)
    try:
        rows = await connection.fetch("SELECT k::text AS row FROM gateway.api_key k")
        assert rows
        assert all(secret not in row["row"] for row in rows)
    finally:
        await connection.close()
    async with place.gateway.client(key) as client:
        await client.get("/v1/runs")
        await client.get("/v1/runs", headers={"Authorization": f"Bearer {key}x"})
    assert secret not in place.gateway.log.read_text()


async def test_the_gateway_role_can_neither_change_nor_delete_keys(place: Place) -> None:
    await place.key("shop", "alice")
    connection = await asyncpg.connect(place.dsn)
    try:
        for statement in (
            "DELETE FROM gateway.api_key",
            "UPDATE gateway.api_key SET scopes = '{}'",
            "UPDATE gateway.api_key SET roles = '{approver}'",
            "SELECT gateway.audit_key()",
            "SELECT tas.write_audit('{}', '{}')",
            "UPDATE gateway.principal SET project = 'bank'",
            "SELECT 1 FROM runs.run",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_what_is_revoked_stays_revoked_also_for_whoever_has_the_gateways_rights(place: Place) -> None:
    await place.key("shop", "alice")
    connection = await asyncpg.connect(place.dsn)
    try:
        revoke = "UPDATE gateway.api_key SET revoked_at = now(), revoked_by = 'x' WHERE caller = 'alice'"
        await connection.execute(revoke)
        for again in (
            revoke.replace("'x'", "'y'"),
            "UPDATE gateway.api_key SET revoked_at = NULL, revoked_by = NULL WHERE caller = 'alice'",
        ):
            with pytest.raises(asyncpg.RaiseError, match="make another one"):
                await connection.execute(again)
    finally:
        await connection.close()


async def test_the_orchestrator_may_read_the_project_of_a_caller(database: Any) -> None:
    connection = await asyncpg.connect(database("orchestrator"))
    try:
        found = await connection.fetchval("SELECT project FROM gateway.principal WHERE caller = 'anonymous'")
        assert found == "default"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM gateway.api_key")
    finally:
        await connection.close()


async def test_tool_access_is_asked_in_the_name_of_the_credential(place: Place) -> None:
    peer = place.peer
    peer.answers[rpc.AUDIT_QUERY.subject] = AuditPage(entries=())
    peer.answers[rpc.APPLY_POLICY.subject] = PolicyApplied(version=2, digest="d", rules=1, changed=True)
    peer.answers[rpc.GET_PERMISSIONS.subject] = AgentPermissions(policy_version=2, permissions=())
    peer.answers[rpc.DESCRIBE_TOOLS.subject] = ToolsDescribed(tools=())
    peer.answers[rpc.DECIDE_PROPOSAL.subject] = ActionDone(detail="accepted")
    async with await place.client("shop", "alice") as alice:
        await alice.get("/v1/audit?tool=orders.refund&limit=5&since=2026-11-01T00:00:00Z")
        audit = peer.requests(rpc.AUDIT_QUERY.subject)[0]
        assert (audit["project"], audit["tool"], audit["limit"]) == ("shop", "orders.refund", 5)
        assert (await alice.post("/v1/policy", json={"text": "kind: Policy\nrules: []\n"})).json()["version"] == 2
        applied = peer.requests(rpc.APPLY_POLICY.subject)[0]
        assert (applied["project"], applied["actor"]) == ("shop", "alice")
        await alice.get("/v1/permissions/team/support/billing")
        asked = peer.requests(rpc.GET_PERMISSIONS.subject)[0]
        assert (asked["network"], asked["agent_key"]) == ("team/support", "billing")
        assert (await alice.get("/v1/tools")).json()["tools"] == []
        decided = await alice.post("/v1/tools/orders.refund/proposal", json={"version": 3, "accept": True})
        assert decided.status_code == 200
    async with await place.client("shop", "carol", roles=()) as carol:
        refused = await carol.post("/v1/tools/orders.refund/proposal", json={"version": 3, "accept": True})
        assert (refused.status_code, refused.json()["code"]) == (403, "role_missing")
    assert len(peer.requests(rpc.DECIDE_PROPOSAL.subject)) == 1


def a_gate(gate_type: str, **more: Any) -> GateView:
    now = datetime.now(UTC)
    fields = {
        "run_id": uuid.uuid4(),
        "status": "pending",
        "reason": "look",
        "opened_at": now,
        "expires_at": now,
        **more,
    }
    return GateView.model_validate({"gate_id": uuid.uuid4(), "gate_type": gate_type, **fields})


@pytest.mark.parametrize(
    ("scopes", "roles", "expected"),
    [
        (SCOPES, (), ["operator"]),
        (SCOPES, ("policy_admin",), ["operator", "policy_admin"]),
        (("gates:read", "gates:resolve"), (), []),
        (("gates:read", "gates:resolve"), ("viewer",), ["viewer"]),
        ((), ("approver",), ["approver"]),
    ],
)
async def test_a_key_speaks_in_its_roles_and_with_every_scope_as_an_operator_beside_approvals(
    place: Place, scopes: Sequence[str], roles: tuple[str, ...], expected: list[str]
) -> None:
    peer, doubt = place.peer, a_gate("unknown_effect", project="shop")
    approval = a_gate("approval", project="shop", approval_id=uuid.uuid4())
    gates = {str(gate.gate_id): gate for gate in (doubt, approval)}
    peer.answers[rpc.LIST_GATES.subject] = lambda body: GatePage(gates=(gates[body["gate_id"]],))
    for method in (rpc.RESOLVE_GATE, rpc.RESOLVE_APPROVAL):
        peer.answers[method.subject] = ActionDone(detail="taken")
    async with await place.client("shop", "alice", scopes, roles=roles) as alice:
        settled = await alice.post(f"/v1/gates/{doubt.gate_id}/resolve", json={"verdict": "happened"})
        decided = await alice.post(f"/v1/gates/{approval.gate_id}/approve")
        assert (settled.status_code, decided.status_code) == (200, 200)
    assert peer.requests(rpc.RESOLVE_GATE.subject)[0]["roles"] == expected
    assert peer.requests(rpc.RESOLVE_APPROVAL.subject)[0]["roles"] == sorted(roles)
