"""The gateway as any client sees it: JSON over HTTP, asked again for as long as nobody is there to answer."""

import asyncio
import time
from typing import Any

import httpx2

Json = dict[str, Any]

ANSWER_S = 120
"""How long nobody may answer before the campaign gives up."""

LATER = frozenset({429, 502, 503, 504})


class Door:
    """Asks the gateway."""

    def __init__(self, url: str, authorization: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url, verify=False, headers={"Authorization": authorization}, timeout=60
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Json | None = None, **headers: str) -> tuple[int, Json]:
        """Return status and body of the answer. Only what may be asked twice is asked here, or what has a key."""
        until = time.monotonic() + ANSWER_S
        while True:
            try:
                answer = await self._http.request(method, path, json=body, headers=headers)
            except httpx2.TransportError:
                if time.monotonic() > until:
                    raise
            else:
                if answer.status_code not in LATER or time.monotonic() > until:
                    return answer.status_code, answer.json()
            await asyncio.sleep(0.2)

    async def get(self, path: str) -> Json:
        """Return what stands at *path*; raises RuntimeError where the answer is a problem."""
        status, body = await self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path} is answered {status}: {body}")
        return body

    async def events(self, run_id: str) -> list[Json]:
        """Return the whole log of a run."""
        entries: list[Json] = []
        while True:
            after = entries[-1]["seq"] if entries else 0
            page = (await self.get(f"/v1/runs/{run_id}/events?after={after}&limit=1000"))["entries"]
            if not page:
                return entries
            entries += page

    async def tree(self, run_id: str) -> list[Json]:
        """Return a run and all that are below it, the run first."""
        waiting, found = [await self.get(f"/v1/runs/{run_id}/tree")], []
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += node["children"]
        return found
