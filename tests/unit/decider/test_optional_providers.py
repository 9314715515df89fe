"""A provider whose library is not installed says so, and how it is installed."""

from typing import Any

from tests.support.decider.decisions import request

from towpath_contracts.problems.registry import REGISTRY
from towpath_decider.adapters.sdk_provider import SdkProvider
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion


class Absent(SdkProvider):
    """A provider whose SDK is nowhere."""

    missing = ""

    def _connect(self, sdk: Any) -> Any:
        raise AssertionError(sdk)

    async def _send(self, *asked: Any) -> Any:
        raise AssertionError(asked)

    def _read(self, *answer: Any) -> Any:
        raise AssertionError(answer)


async def test_a_missing_extra_has_a_code_and_a_remedy_of_its_own() -> None:
    provider = Absent(
        name="Nobody",
        module="towpath_no_such_sdk",
        api_key=None,
        key_name="NOBODY_KEY",
        options=(),
        log=None,
        tool_switches={},
        tools_by_default=False,
    )
    failed = await provider.complete(request(), ModelQuestion(instructions="", turns=()))
    assert isinstance(failed, ModelCallFailure) and failed.code == "provider_missing" and failed.code in REGISTRY
    assert "uv sync --extra towpath_no_such_sdk" in failed.message
    assert "pip install 'towpath[towpath_no_such_sdk]'" in failed.message and not failed.retryable
