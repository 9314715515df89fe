"""Attacks on what the console keeps of its pages, and on who may send its forms."""

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as, require
from tests.attacks.target import Target

HTML = {"Accept": "text/html"}
TWIN = "/.json"
STREAM = "/live?page=/"


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
    async with httpx2.AsyncClient(base_url=target.url) as browser:
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
    async with httpx2.AsyncClient(base_url=target.url) as browser:
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
