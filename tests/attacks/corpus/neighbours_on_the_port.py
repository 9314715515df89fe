"""Attacks by another process of the machine on the port of a platform without keys."""

import asyncio
import contextlib
import socket
from collections.abc import Mapping

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as, require
from tests.attacks.target import TIMEOUT_S, Target, pending_gates


async def refusals(target: Target, headers: Mapping[str, str]) -> str:
    """Try what an administrator may do; return the code of the refusals, or raise where one is let in."""
    wanted = [
        ("GET", "/v1/runs", None),
        ("POST", "/v1/runs", {"network": "desk", "user_message": "mine"}),
        ("POST", "/v1/keys", {"caller": "backdoor", "scopes": ["keys:admin", "policy:write"], "roles": ["approver"]}),
        ("POST", "/v1/policy", {"text": "kind: Policy\nrules: []\n"}),
    ]
    codes = set()
    async with httpx2.AsyncClient(
        base_url=target.url, verify=False, headers=dict(headers), timeout=TIMEOUT_S
    ) as neighbour:
        for method, path, body in wanted:
            answer = await neighbour.request(method, path, json=body)
            if answer.status_code not in {401, 403}:
                raise AttackWorkedError(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            codes.add(str(answer.json()["code"]))
    return ", ".join(sorted(codes))


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def request_without_the_token(target: Target) -> str:
    """Ask the gateway as a process that can't read the data folder, without and with made-up credentials."""
    made_up = ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic bG9jYWw6"}, {"Cookie": "towpath_8787=0"})
    found = {await refusals(target, headers) for headers in made_up}
    return ", ".join(sorted(found))


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def link_of_a_browser_used_again(target: Target) -> str:
    """Use the link that a browser was let in by a second time, and its cookie from another site's page."""
    link = target.platform.access.sign_in_url(target.url)
    assert link is not None
    async with httpx2.AsyncClient(verify=False, timeout=TIMEOUT_S) as browser:
        let_in = await browser.get(link)
        name, _, value = let_in.headers["set-cookie"].partition(";")[0].partition("=")
        flags = {flag.strip() for flag in let_in.headers["set-cookie"].split(";")[1:]}
        if not {"HttpOnly", "SameSite=Strict"} <= flags:
            raise AttackWorkedError(f"a script reads the cookie, or another site sends it: {flags}")
        cookie = {"Cookie": f"{name}={value}"}
        if (await browser.get(f"{target.url}/v1/runs", headers=cookie)).status_code != httpx2.codes.OK:
            raise RuntimeError("the cookie does not let its owner in")
    async with httpx2.AsyncClient(verify=False, timeout=TIMEOUT_S) as neighbour:
        again = await neighbour.get(link)
        if again.status_code != httpx2.codes.UNAUTHORIZED:
            raise AttackWorkedError(f"the link let a second browser in: {again.status_code}")
    return await refusals(target, {**cookie, "Origin": "http://127.0.0.1:9"}) + " from another site's page"


@attack(Position.KEY_HOLDER, keys=False)
async def own_request_approved_without_keys(target: Target) -> str:
    """Approve what one submitted oneself on a platform without keys, also by an edit."""
    async with target.client() as person:
        run = await target.run(person, [("desk.refund", {"order": "4", "amount": 7777})], "Refund order 4.")
        (gate,) = await pending_gates(person, run["run_id"])
        for word, body in (("approve", {}), ("edit", {"args": {"order": "4", "amount": 7776}})):
            answer = await person.post(f"/v1/gates/{gate['gate_id']}/{word}", json=body)
            code = refused_as(answer, "requester_may_not_approve")
    return code


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def files_of_the_token(target: Target) -> str:
    """Read the token or the code of the link as another user of the machine."""
    for name in ("authorization", "sign-in", "state.json"):
        place = target.platform.data / name
        require(name == "sign-in" or place.exists(), f"there is no {place}")
        if place.exists() and place.stat().st_mode & 0o077:
            raise AttackWorkedError(f"{place} is readable: {place.stat().st_mode:o}")
    return "0600"


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def port_of_a_gateway_that_is_down(target: Target) -> str:
    """Listen at the gateway's port between its death and its next start, to be asked in its place."""
    port = int(target.url.rpartition(":")[2])
    platform, tried = target.platform, 0
    before = platform.processes["gateway"]
    platform.kill("gateway")
    while platform.processes["gateway"].restarts == before.restarts or not await _answers(target):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            raise AttackWorkedError(f"port {port} was free, and whoever takes it is sent the token")
        tried += 1
        await asyncio.sleep(0.001)
    return f"taken at each of {tried} tries"


async def _answers(target: Target) -> bool:
    try:
        async with httpx2.AsyncClient(base_url=target.url, verify=False, timeout=0.05) as anybody:
            return (await anybody.get("/readyz")).is_success
    except httpx2.TransportError:
        return False
