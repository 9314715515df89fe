"""The platform that the tests of the console look at, and a browser that followed its link."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest_asyncio
import yaml
from tests.support.gateway.console_runs import notice_files
from tests.support.gateway.mail_server import MailServer, mail_server
from tests.support.gateway.web import Web, web
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder

HTML = {"Accept": "text/html"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def receiver() -> AsyncIterator[Web]:
    """Whom the platform tells of gates."""
    async with web(lambda _: b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n") as receiving:
        yield receiving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mails() -> AsyncIterator[MailServer]:
    async with mail_server() as receiving:
        yield receiving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(receiver: Web, mails: MailServer) -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        running = sample_platform(folder, orchestrator=notice_files(folder, receiver, mails))
        async with running:
            yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(platform: Platform) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that followed the link of `towpath up`, with the sample network published."""
    async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=HTML, timeout=60) as client:
        link = platform.access.sign_in_url(platform.gateway_url)
        assert link is not None
        entered = await client.get(link)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
        for _ in range(300):
            published = await client.post("/v1/networks", json={"spec": spec})
            if published.is_success:
                break
            await asyncio.sleep(0.2)
        assert published.is_success, published.text
        yield client
