"""Local servers that speak the APIs of model providers: one dialect each, so that one suite holds all providers alike.

A server stands for the other side of the wire, not for a part of Towpath: the real SDKs talk HTTP to it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from tests.support.decider import gemini_server
from tests.support.decider.gemini_server import Answer, RecordedRequest

from towpath_decider.adapters.anthropic_messages import ClaudeProvider
from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.adapters.openai_chat import OpenAiProvider
from towpath_decider.adapters.provider import Provider
from towpath_fabric.telemetry.logs import Logger

KEY = "test-key-1234567890"
INPUT_TOKENS, OUTPUT_TOKENS = gemini_server.INPUT_TOKENS, gemini_server.OUTPUT_TOKENS + gemini_server.THOUGHT_TOKENS


Switches = Mapping[str, bool]


def cut(text: str, size: int = 7) -> list[str]:
    """Return *text* in pieces, as a model writes it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


class Dialect(ABC):
    """How one provider's API says things."""

    name: str
    model: str
    usd: float
    too_long: tuple[int, str]
    schema_refused: str
    """What the API says where it does not know the option that carries the answer's schema."""

    thinking_refused: str

    @abstractmethod
    def provider(
        self, url: str, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
    ) -> Provider: ...

    @abstractmethod
    def says(self, text: str, *, cut_off: bool = False) -> Answer: ...

    @abstractmethod
    def refuses(self) -> Answer: ...

    @abstractmethod
    def chunks(self, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Return the frames, with their event names, in which *body* is streamed; texts are cut into small pieces."""

    def streamed(self, answer: Answer, *, without_end: bool = False) -> Answer:
        """Return *answer* as a stream of server-sent events."""
        frames = self.chunks(answer.body)
        frames = frames[: len(frames) // 2] if without_end else frames
        lines = [f"event: {name}\n" * bool(name) + f"data: {json.dumps(data)}\n\n" for name, data in frames]
        body = "".join(lines) + ("data: [DONE]\n\n" if isinstance(self, OpenAi) and not without_end else "")
        return Answer(body=body.encode(), headers={"content-type": "text/event-stream"})

    def fails(self, status: int, message: str = "no", **headers: str) -> Answer:
        return Answer(status=status, body={"error": {"message": message, "type": "some_error"}}, headers=headers)

    @abstractmethod
    def sent_turns(self, seen: RecordedRequest) -> list[tuple[str, str]]:
        """Return the roles and texts of the request: system first."""

    @abstractmethod
    def schema(self, seen: RecordedRequest) -> dict[str, Any] | None: ...

    @abstractmethod
    def thinks(self, seen: RecordedRequest) -> bool:
        """Say whether the request leaves thinking on."""

    @abstractmethod
    def key(self, seen: RecordedRequest) -> str | None: ...

    @abstractmethod
    def limit(self, seen: RecordedRequest) -> int: ...


class Gemini(Dialect):
    name, model = "gemini", "gemini-2.5-flash"
    usd = INPUT_TOKENS * 0.3e-6 + OUTPUT_TOKENS * 2.5e-6
    too_long = (400, gemini_server.TOO_LONG)
    schema_refused = "The specified schema produces a constraint that has too many states"
    thinking_refused = "Budget 0 is invalid. This model only works in thinking mode."

    def provider(
        self, url: str, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
    ) -> Provider:
        assert not tool_switches
        return GeminiProvider(api_key=SecretStr(key) if key else None, base_url=url, log=log)

    def says(self, text: str, *, cut_off: bool = False) -> Answer:
        return gemini_server.says(text, finish="MAX_TOKENS" if cut_off else "STOP")

    def refuses(self) -> Answer:
        return gemini_server.says("", finish="SAFETY")

    def chunks(self, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        (whole,) = body["candidates"]
        parts = [part["text"] for part in whole.get("content", {}).get("parts", ())]
        frames = [{"candidates": [{"index": 0, "content": {"parts": [{"text": one}]}}]} for one in cut("".join(parts))]
        return [("", frame) for frame in (*frames, {**body, "candidates": [{**whole, "content": None}]})]

    def fails(self, status: int, message: str = "no", **headers: str) -> Answer:
        return gemini_server.fails(status, message, headers=headers)

    def sent_turns(self, seen: RecordedRequest) -> list[tuple[str, str]]:
        roles = {"user": "user", "model": "assistant"}
        turns = [(roles[turn["role"]], turn["parts"][0]["text"]) for turn in seen.body["contents"]]
        return [("system", seen.body["systemInstruction"]["parts"][0]["text"]), *turns]

    def schema(self, seen: RecordedRequest) -> dict[str, Any] | None:
        found: dict[str, Any] | None = seen.body["generationConfig"].get("responseJsonSchema")
        return found

    def thinks(self, seen: RecordedRequest) -> bool:
        return "thinkingConfig" not in seen.body["generationConfig"]

    def key(self, seen: RecordedRequest) -> str | None:
        return seen.header("x-goog-api-key")

    def limit(self, seen: RecordedRequest) -> int:
        return int(seen.body["generationConfig"]["maxOutputTokens"])


class OpenAi(Dialect):
    name, model = "openai", "gpt-5-mini"
    usd = INPUT_TOKENS * 0.25e-6 + OUTPUT_TOKENS * 2e-6
    too_long = (400, "This model's maximum context length is 128000 tokens. However, you requested 200000 tokens.")
    schema_refused = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    thinking_refused = "Unsupported value: 'reasoning_effort' does not support 'none' with this model."

    def provider(
        self, url: str, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
    ) -> Provider:
        secret = SecretStr(key) if key else None
        return OpenAiProvider(api_key=secret, base_url=f"{url}/v1", log=log, tool_switches=tool_switches)

    def message(self, message: dict[str, Any], finish: str) -> Answer:
        usage = {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            "completion_tokens_details": {"reasoning_tokens": gemini_server.THOUGHT_TOKENS},
        }
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        body = {"id": "c1", "object": "chat.completion", "created": 1, "model": self.model, "choices": [choice]}
        return Answer(body={**body, "usage": usage})

    def says(self, text: str, *, cut_off: bool = False) -> Answer:
        return self.message({"content": text}, "length" if cut_off else "stop")

    def refuses(self) -> Answer:
        return self.message({"content": None, "refusal": "SAFETY: I can't help with that."}, "stop")

    def chunks(self, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        (choice,) = body["choices"]
        message, about = choice["message"], {**body, "object": "chat.completion.chunk", "usage": None}
        deltas: list[dict[str, Any]] = [{"content": one} for one in cut(message.get("content") or "")]
        deltas += [{"refusal": message["refusal"]}] if message.get("refusal") else []
        for index, call in enumerate(message.get("tool_calls", ())):
            deltas.append({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
            pieces = cut(call["function"]["arguments"])
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": one}}]} for one in pieces]
        frames = [{**about, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
        last = {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        return [("", frame) for frame in (*frames, last, {**about, "choices": [], "usage": body["usage"]})]

    def calls_tools(self, *calls: tuple[str, str], text: str | None = None, finish: str = "tool_calls") -> Answer:
        """Make native tool calls of the answer, with arguments as text."""
        made = [
            {"id": f"t{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for place, (name, arguments) in enumerate(calls)
        ]
        return self.message({"content": text, "tool_calls": made}, finish)

    def offered(self, seen: RecordedRequest) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            (one["function"]["name"], one["function"]["description"], one["function"]["parameters"])
            for one in seen.body.get("tools", ())
        ]

    def sent_turns(self, seen: RecordedRequest) -> list[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in seen.body["messages"]]

    def schema(self, seen: RecordedRequest) -> dict[str, Any] | None:
        wanted = seen.body.get("response_format", {})
        return wanted["json_schema"]["schema"] if wanted.get("type") == "json_schema" else None

    def thinks(self, seen: RecordedRequest) -> bool:
        return seen.body.get("reasoning_effort") != "none"

    def key(self, seen: RecordedRequest) -> str | None:
        return seen.header("authorization").removeprefix("Bearer ")

    def limit(self, seen: RecordedRequest) -> int:
        return int(seen.body["max_completion_tokens"])


class Local(OpenAi):
    name, model, usd = "local", "qwen3", 0.0
    too_long = (400, "the request exceeds the available context size, try increasing it")
    schema_refused = "[{'loc': ['body', 'response_format'], 'msg': 'extra fields not permitted'}]"
    thinking_refused = "reasoning_effort: extra fields not permitted"

    def provider(
        self, url: str, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
    ) -> Provider:
        secret = SecretStr(key) if key else None
        return OpenAiProvider(api_key=secret, base_url=f"{url}/v1", local=True, log=log, tool_switches=tool_switches)

    def limit(self, seen: RecordedRequest) -> int:
        return int(seen.body["max_tokens"])


def _object_in(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


class Claude(Dialect):
    name, model = "anthropic", "claude-haiku-4-5"
    usd = INPUT_TOKENS * 1e-6 + OUTPUT_TOKENS * 5e-6
    too_long = (400, "prompt is too long: 208310 tokens > 200000 maximum")
    schema_refused = "output_config.format: structured outputs are not supported by this model"
    thinking_refused = "thinking.type: 'disabled' is not supported by this model"

    def provider(
        self, url: str, key: str | None = KEY, log: Logger | None = None, tool_switches: Switches | None = None
    ) -> Provider:
        secret = SecretStr(key) if key else None
        return ClaudeProvider(api_key=secret, base_url=url, log=log, tool_switches=tool_switches)

    def message(self, content: list[dict[str, Any]], stop: str, **fields: Any) -> Answer:
        body = {"id": "m1", "type": "message", "role": "assistant", "model": self.model, "content": content}
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
        return Answer(body={**body, "stop_reason": stop, "stop_sequence": None, "usage": usage, **fields})

    def says(self, text: str, *, cut_off: bool = False) -> Answer:
        return self.message([{"type": "text", "text": text}], "max_tokens" if cut_off else "end_turn")

    def calls_tools(self, *calls: tuple[str, str], text: str | None = None, finish: str = "tool_use") -> Answer:
        """Make native tool calls of the answer; arguments that are no JSON can only be streamed."""
        made = [
            {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": _object_in(arguments)}
            for place, (name, arguments) in enumerate(calls)
        ]
        return self.message([*([{"type": "text", "text": text}] if text else []), *made], finish)

    def offered(self, seen: RecordedRequest) -> list[tuple[str, str, dict[str, Any]]]:
        return [(one["name"], one["description"], one["input_schema"]) for one in seen.body.get("tools", ())]

    def refuses(self) -> Answer:
        details = {"type": "refusal", "category": "cyber", "explanation": "SAFETY: no."}
        return self.message([], "refusal", stop_details=details)

    def chunks(self, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        begun = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 1}}
        frames: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(body["content"]):
            if block["type"] == "tool_use":
                written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
                empty: dict[str, Any] = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": one} for one in ("", *cut(written))]
            else:
                empty = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": one} for one in cut(block["text"])]
            frames.append({"type": "content_block_start", "index": index, "content_block": empty})
            frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            frames.append({"type": "content_block_stop", "index": index})
        ended = {name: body[name] for name in ("stop_reason", "stop_sequence", "stop_details") if name in body}
        frames.append({"type": "message_delta", "delta": ended, "usage": body["usage"]})
        return [(frame["type"], frame) for frame in (*frames, {"type": "message_stop"})]

    def sent_turns(self, seen: RecordedRequest) -> list[tuple[str, str]]:
        said = [("system", seen.body["system"]), *((one["role"], one["content"]) for one in seen.body["messages"])]
        return [
            (role, "\n\n".join(block.get("text", block.get("content", "")) for block in blocks))
            for role, blocks in said
        ]

    def schema(self, seen: RecordedRequest) -> dict[str, Any] | None:
        wanted = seen.body.get("output_config")
        return None if wanted is None else wanted["format"]["schema"]

    def thinks(self, seen: RecordedRequest) -> bool:
        return seen.body.get("thinking") != {"type": "disabled"}

    def key(self, seen: RecordedRequest) -> str | None:
        return seen.header("authorization").removeprefix("Bearer ")

    def limit(self, seen: RecordedRequest) -> int:
        return int(seen.body["max_tokens"])


DIALECTS: dict[str, Dialect] = {one.name: one for one in (Gemini(), OpenAi(), Claude(), Local())}
