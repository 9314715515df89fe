"""Attacks by who wants to be somebody else: keys of other callers, approvals of own requests, pages of others."""

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as, require
from tests.attacks.target import Target, pending_gates

from towpath_fabric.clock import wall
from towpath_gateway.core.api_keys import ALL_SCOPES

HTML = {"Accept": "text/html"}
TWIN = "/.json"
STREAM = "/live?page=/"


@attack(Position.KEY_HOLDER)
async def key_for_a_caller_with_roles(target: Target) -> str:
    """Make a key for a caller who may approve, and approve one's own refund with it."""
    await target.key("mia", roles=["approver"])
    async with target.client("kadmin") as admin:
        run = await target.run(admin, [("desk.refund", {"order": "1", "amount": 9999})], "Refund order 1.")
        made = await admin.post("/v1/keys", json={"caller": "mia", "scopes": ["gates:read", "gates:resolve"]})
        if made.is_success:
            raise AttackWorkedError(f"a key of mia: {made.json()['roles']}; the refund of {run['run_id']} waits")
        return refused_as(made, "forbidden")


@attack(Position.KEY_HOLDER)
async def key_made_before_the_roles(target: Target) -> str:
    """Make a key for somebody new, wait until that person may approve, and approve one's own refund with it."""
    async with target.client("kadmin2") as admin:
        made = await admin.post("/v1/keys", json={"caller": "noa", "scopes": ["gates:read", "gates:resolve"]})
        made.raise_for_status()
        await target.key("noa", roles=["approver"])
        run = await target.run(admin, [("desk.refund", {"order": "2", "amount": 9999})], "Refund order 2.")
        (gate,) = await pending_gates(admin, run["run_id"])
        early = {"Authorization": f"Bearer {made.json()['key']}"}
        vote = {"verdict": "approved", "reason": "fine"}
        answer = await admin.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote, headers=early)
        if answer.is_success:
            raise AttackWorkedError(f"approved as noa: {run['run_id']}")
        return refused_as(answer, "role_missing")


@attack(Position.KEY_HOLDER, lasting=True)
async def key_without_a_trace(target: Target) -> str:
    """Make a key, revoke it while the tool-access service is down, and have the audit's details erased."""
    await target.platform.hold("tas")
    try:
        async with target.client("kadmin3", scopes=ALL_SCOPES) as admin:
            made = (await admin.post("/v1/keys", json={"caller": "ghost", "scopes": ["runs:read"]})).json()
            (await admin.delete(f"/v1/keys/{made['prefix']}")).raise_for_status()
            target.platform.release("tas")
            await target.platform.wait_ready()
            erase = {"reason": "tidy", "before": wall().isoformat()}
            asked = (await admin.post("/v1/erasures", json=erase)).json()
            async with target.client("kadmin4", scopes=["audit:erase"], as_caller=True) as other:
                (await other.post(f"/v1/erasures/{asked['erasure_id']}/confirm")).raise_for_status()
            phases = []
            for phase in ("key.created", "key.revoked"):
                page = (await admin.get(f"/v1/audit?actor=kadmin3&phase={phase}")).json()
                phases += [entry["phase"] for entry in page["entries"] if entry["detail"].get("key") == made["prefix"]]
    finally:
        target.platform.release("tas")
    if phases != ["key.created", "key.revoked"]:
        raise AttackWorkedError(f"the audit has {phases}")
    return f"the audit has {' and '.join(phases)}"


@attack(Position.KEY_HOLDER)
async def figures_that_others_were_told(target: Target) -> str:
    """Open the first page just after others were told its figures: of another project, and with fewer scopes."""
    async with (
        target.client() as owner,
        target.client(project="neighbour") as other,
        target.client(scopes=["runs:read", "audit:read"]) as auditor,
        target.client(scopes=["runs:read"]) as reader,
    ):
        run = await target.run(owner, [("desk.refund", {"order": "9", "amount": 9999})], "Refund order 9.")
        for path in ("/", TWIN):
            (await owner.get(path, headers=HTML)).raise_for_status()
            (await auditor.get(path, headers=HTML)).raise_for_status()
        mine, theirs = (await owner.get(TWIN)).json(), (await other.get(TWIN)).json()
        own = (await other.get("/v1/statistics")).json()
        require(mine["statistics"]["total"] != own["total"], "both projects have the same figures")
        page = (await other.get("/", headers=HTML)).text
        if theirs["statistics"]["total"] != own["total"] or theirs["runs"]["runs"] or run["run_id"] in page:
            raise AttackWorkedError(f"another project is told {theirs['statistics']}")
        seen = (await reader.get(TWIN)).json()
        for name, path in (
            ("statistics", "/v1/statistics"),
            ("budgets", "/v1/budgets"),
            ("letters", "/v1/dead-letters"),
        ):
            may = (await reader.get(path)).is_success
            if bool(seen[name]) and not may:
                raise AttackWorkedError(f"a key that may not ask for {path} is told {seen[name]}")
        await owner.post(f"/v1/runs/{run['run_id']}/cancel", json={})
    return "each key is told its own"


@attack(Position.KEY_HOLDER)
async def pages_with_a_revoked_key(target: Target) -> str:
    """Go on with pages, data and a stream that were drawn for a key before it was revoked."""
    async with target.client() as admin, target.client("leaver") as leaver:
        for path in ("/", TWIN):
            (await leaver.get(path, headers=HTML)).raise_for_status()
        key = (await leaver.get("/v1/me")).json()["key"]
        (await admin.delete(f"/v1/keys/{key}")).raise_for_status()
        codes = [refused_as(await leaver.get(path), "unauthenticated") for path in (TWIN, STREAM, "/v1/me")]
        page = await leaver.get("/", headers=HTML)
        if page.status_code != httpx2.codes.UNAUTHORIZED:
            raise AttackWorkedError(f"the page is answered with {page.status_code}")
    return f"refused as {', '.join(sorted(set(codes)))}"


@attack(Position.KEY_HOLDER)
async def a_session_used_by_a_page_of_another_scheme(target: Target) -> str:
    """Have a page of the same host, but another scheme or port, send what a session may send."""
    key = await target.key("scheming")
    async with httpx2.AsyncClient(base_url=target.url, timeout=60) as browser:
        entered = await browser.post("/sign-in", data={"key": key}, headers={"Origin": target.url})
        require(entered.status_code == httpx2.codes.SEE_OTHER, f"nobody could sign in: {entered.status_code}")
        others = (target.url.replace("http:", "https:"), target.url.rpartition(":")[0], f"{target.url}/", "null")
        for origin in others:
            for path, sent in (("/v1/runs", {"json": {}}), ("/runs", {"data": {"network": "desk"}})):
                answer = await browser.post(path, headers={"Origin": origin, "Accept": "application/json"}, **sent)
                if answer.status_code != httpx2.codes.FORBIDDEN:
                    raise AttackWorkedError(f"{path} takes {origin}: {answer.status_code}")
    return f"{len(others)} origins refused"


@attack(Position.OUTSIDER)
async def sign_ins_that_lead_elsewhere(target: Target) -> str:
    """Write links to the sign-in page that lead to another site, or split its answer."""
    pages = (
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/\r\nSet-Cookie: a=b",
        "/\t/evil.example",
        "/%0d",
    )
    key = await target.key("led")
    async with httpx2.AsyncClient(base_url=target.url, timeout=60) as browser:
        for page in pages:
            sent = {"key": key, "next": page}
            answer = await browser.post("/sign-in", data=sent, headers={"Origin": target.url})
            leads_to, cookies = answer.headers.get("location", ""), answer.headers.get_list("set-cookie")
            if leads_to not in {"/", "/%0d"} or len(cookies) != 1:
                raise AttackWorkedError(f"{page!r} leads to {leads_to!r} with {len(cookies)} cookies")
            shown = (await browser.get("/sign-in", params={"next": page}, headers=HTML)).text
            if "evil.example" in shown:
                raise AttackWorkedError(f"the form leads to {page!r}")
    return f"{len(pages)} links lead to this site"
