"""What the providers that use an official SDK have in common: OpenAI's and Anthropic's are cut alike.

The SDK is loaded at the first question, in a thread, since it costs about a second. It retries nothing: attempts
are counted in `core.conversation`. It follows no redirect, so the key is sent to the configured address
and nowhere else.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import SecretStr

from towpath_contracts.decisions.request import DecisionRequest
from towpath_decider.adapters.model_options import TOOLS, DroppableOption, DroppableOptions, options_unset
from towpath_decider.adapters.provider import OnText, model_name
from towpath_decider.adapters.provider_failures import (
    error_details,
    failure_of_answer,
    failure_of_connection,
    failure_of_status,
)
from towpath_decider.adapters.stream_assembly import status_of
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.native_tool_calls import is_switched_on, native_tools
from towpath_fabric.telemetry.logs import Logger
from towpath_readings.model_responses import ModelResponse, model_response

TIMEOUT_GRACE_S = 5.0
"""Beyond a request's own timeout, which the asker keeps: so that one of the two tells it, and always the same."""


class SdkProvider(ABC):
    """Asks through the SDK *module*. A subclass says how a question and an answer look."""

    def __init__(
        self,
        *,
        name: str,
        module: str,
        api_key: SecretStr | None,
        key_name: str,
        options: tuple[DroppableOption, ...],
        log: Logger | None,
        tool_switches: Mapping[str, bool],
        tools_by_default: bool,
    ) -> None:
        """*name* is the provider as people know it, *key_name* the variable that its key is read from.

        Options that a server does not take are written to *log*. Tools are offered natively as *tool_switches* say of
        a model or its provider, else *tools_by_default*.
        """
        self._name = name
        self._module = module
        self._api_key = api_key
        self._key_name = key_name
        self._options = DroppableOptions(name, options, log)
        self._tool_switches = tool_switches
        self._tools_by_default = tools_by_default
        self._sdk: Any = None
        self._client: Any = None
        self._transport_error: type[Exception] = OSError
        self._opening = asyncio.Lock()

    @property
    @abstractmethod
    def missing(self) -> str:
        """What has to be set before anything can be asked; empty when nothing has."""

    @abstractmethod
    def _connect(self, sdk: Any) -> Any:
        """Return a client of the loaded SDK."""

    @abstractmethod
    async def _send(
        self,
        request: DecisionRequest,
        question: ModelQuestion,
        off: frozenset[str],
        timeout_s: float,
        on_text: OnText | None,
    ) -> Any:
        """Send one HTTP request and return the SDK's answer, whole; *off* names the options to leave out."""

    @abstractmethod
    def _read(self, answer: Any, request: DecisionRequest) -> ModelReply | ModelCallFailure:
        """Read the SDK's answer."""

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        """Ask once; failures of the API, the network and the answer's form are values."""
        if self.missing:
            return ModelCallFailure(code="model_unauthorized", message=self.missing)
        failure = await self._open()
        if failure is not None:
            return failure
        unset = options_unset(request.settings)
        return await self._options.ask(
            model_name(request.model),
            lambda off: self._send_once(request, question, off, on_text),
            unset if self.offers_tools(request) else unset | {TOOLS},
        )

    def offers_tools(self, request: DecisionRequest) -> bool:
        """Return whether there are tools to offer, and this model is to be offered them and takes them."""
        return (
            is_switched_on(request.model, self._tool_switches, otherwise=self._tools_by_default)
            and not self._options.is_left_out(model_name(request.model), TOOLS)
            and bool(native_tools(request))
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _open(self) -> ModelCallFailure | None:
        async with self._opening:
            if self._client is None:
                try:
                    self._client = await asyncio.to_thread(self._load)
                except ModuleNotFoundError:
                    how = f"uv sync --extra {self._module} in a clone, else pip install 'towpath[{self._module}]'"
                    message = f"{self._name} needs the extra {self._module}: {how}; then start the decider again"
                    return ModelCallFailure(code="provider_missing", message=message)
        return None

    def _load(self) -> Any:
        self._sdk = import_module(self._module)
        self._transport_error = import_module("httpx2").HTTPError
        return self._connect(self._sdk)

    async def _send_once(
        self, request: DecisionRequest, question: ModelQuestion, off: frozenset[str], on_text: OnText | None
    ) -> ModelReply | ModelCallFailure:
        try:
            answer = await self._send(request, question, off, request.timeout_ms / 1000 + TIMEOUT_GRACE_S, on_text)
            return self._read(answer, request)
        except self._sdk.APIStatusError as error:
            secret = None if self._api_key is None else self._api_key.get_secret_value()
            details = error_details(error.response.headers, error.body)
            status = status_of(error.status_code, error.body)
            return failure_of_status(
                self._name, status, _error_text(error), secret=secret, details=details, key_name=self._key_name
            )
        except (self._sdk.APIConnectionError, self._transport_error) as error:
            return failure_of_connection(
                self._name, error.__cause__ if isinstance(error.__cause__, Exception) else error
            )
        except (self._sdk.APIError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            return failure_of_answer(self._name, error)  # a body that is no answer of this API


def response_of(answer: Any, finish_reason: object) -> ModelResponse:
    """Return what an SDK's *answer* says of itself; a server that is like the API may leave anything out."""
    return model_response(
        model=getattr(answer, "model", None), response_id=getattr(answer, "id", None), finish_reason=finish_reason
    )


def _error_text(error: Any) -> str:
    """Return what an API says of an error: its message, or the body where it has no such field."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return str(inner or error.message)
    if not inner.get("message"):
        return str(inner)
    named = [str(inner[field]) for field in ("param", "code") if inner.get(field)]
    return f"{inner['message']} ({', '.join(named)})" if named else str(inner["message"])
