"""Asking each provider through its real SDK, against a local server that speaks its API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.decider.decisions import RESPOND, as_text, request
from tests.support.decider.gemini_server import Answer, GeminiServer, RecordedRequest, gemini
from tests.support.decider.model_servers import KEY, Dialect, Switches

from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_decider.adapters.provider import Provider
from towpath_decider.app.decision_service import DecisionMaker, FinishedDecision
from towpath_fabric.telemetry.logs import Logger

GOOD = as_text(RESPOND)


class Clock:
    """Waits without waiting, and remembers how long."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


class RecordingListener:
    """Hears every call of a model, each in its pieces."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.ended = 0

    def begin(self, _request: DecisionRequest) -> "RecordingListener":
        self.calls.append([])
        return self

    def on_text(self, text: str) -> None:
        self.calls[-1].append(text)

    def end(self) -> None:
        self.ended += 1

    @property
    def texts(self) -> list[str]:
        return ["".join(pieces) for pieces in self.calls]


class ProviderApi:
    """One provider, the real one, and the server that it asks; shared by the tests, since SDKs are slow to start."""

    def __init__(self, dialect: Dialect, server: GeminiServer, provider: Provider) -> None:
        self.dialect, self.server, self.provider = dialect, server, provider
        self.name = dialect.name

    @property
    def seen(self) -> list[RecordedRequest]:
        return self.server.seen

    def sent_turns(self, place: int) -> list[tuple[str, str]]:
        return self.dialect.sent_turns(self.seen[place])

    def request(self, **changes: Any) -> DecisionRequest:
        # The first question loads the SDK, which takes long where many others work.
        return request(**{"model": f"{self.name}:{self.dialect.model}", "timeout_ms": 180_000, **changes})

    async def ask(
        self, *answers: Answer, clock: Clock | None = None, listener: RecordingListener | None = None, **changes: Any
    ) -> FinishedDecision:
        self.server.play(*answers)
        open_listener = listener.begin if listener is not None else None
        service = DecisionMaker({self.name: self.provider}, sleep=(clock or Clock()).sleep, open_listener=open_listener)
        return await service.answer(self.request(**changes))


@asynccontextmanager
async def serve(
    dialect: Dialect, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
) -> AsyncIterator[ProviderApi]:
    with gemini(dialect.says(GOOD)) as server:
        provider = dialect.provider(server.url, key, log, tool_switches)
        try:
            yield ProviderApi(dialect, server, provider)
        finally:
            await provider.close()


def made(outcome: FinishedDecision) -> DecisionMadeFact:
    assert isinstance(outcome.fact, DecisionMadeFact), outcome.fact
    return outcome.fact


def failed(outcome: FinishedDecision, code: str) -> DecisionFailedFact:
    assert isinstance(outcome.fact, DecisionFailedFact), outcome.fact
    assert outcome.fact.code == code, outcome.fact
    return outcome.fact
