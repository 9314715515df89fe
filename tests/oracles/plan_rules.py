"""What a plan may say, and what becomes of it, written down a second time: it shares no code with the platform.

`faulty` names the places of a plan that are wrong. `Course` follows one plan, or one workflow, through the ends of its
children, and says everything that has to happen: who starts when and is asked what, who is stopped, every transition
and status, and what comes out. Plans are read as the JSON that their author wrote.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

STEPS, AGENTS, WIDTH = 12, 16, 4
DAY_MS = 24 * 3_600_000
ASKED_CHARS, STEP_CHARS, STEP_BYTES = 100_000, 200_000, 512 * 1024
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
STEP_FIELDS = {"id", "type", "name", "agent", "parallel", "timeout_ms"}
CALL_FIELDS = {"agent_key", "prompt", "with", "result_key", "timeout_ms"}
BLOCK_FIELDS = {"steps", "max_concurrency", "merge_strategy"}


def text_of(value: Any) -> str:
    """Write JSON in one way only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Texts with references.


class NowhereError(Exception):
    """A reference that leads nowhere, or is none."""


class TooMuchError(Exception):
    """An agent would be asked more than it may be."""


def parts_of(text: str) -> list[tuple[str, str]]:
    """Take a text apart: ("words", …) and ("braces", …)."""
    parts, words, place = [], "", 0
    while place < len(text):
        end = text.find("}}", place + 2) if text.startswith("{{", place) else -1
        inside = text[place + 2 : end]
        if end < 0 or "{" in inside or "}" in inside:
            words += text[place]
            place += 1
            continue
        if words:
            parts.append(("words", words))
        parts.append(("braces", inside.strip()))
        words, place = "", end + 2
    return [*parts, ("words", words)] if words or not parts else parts


def path_of(inside: str) -> tuple[str, list[str | int]] | None:
    """Read `result.a.b[0]`: its root, and its segments; None for anything else."""
    root = next((name for name in ("result", "bindings") if inside.startswith(name)), None)
    rest, found = inside[len(root or "") :], list[str | int]()
    while rest:
        if rest[0] == "[":
            number, closing, rest = rest[1:].partition("]")
            if not closing or not number.isdecimal():
                return None
            found.append(int(number))
        elif rest[0] == ".":
            end = min((rest.find(sign, 1) for sign in ".[" if rest.find(sign, 1) > 0), default=len(rest))
            name, rest = rest[1:end], rest[end:]
            if not name or any(letter.isspace() or letter in "]{}" for letter in name):
                return None
            found.append(name)
        else:
            return None
    return (root, found) if root and found else None


def longest(segments: list[str | int], names: Any) -> int:
    """Say how many segments are the longest of *names*, which may have dots; 0 for none."""
    fits = 0
    for count in range(1, len(segments) + 1):
        if isinstance(segments[count - 1], int):
            break
        if ".".join(map(str, segments[:count])) in names:
            fits = count
    return fits


def leads_to(inside: str, values: dict[str, dict[str, Any]]) -> Any:
    """Follow a reference."""
    path = path_of(inside)
    if path is None:
        raise NowhereError(inside)
    known = values[path[0]]
    count = longest(path[1], known)
    if not count:
        raise NowhereError(inside)
    value = known[".".join(map(str, path[1][:count]))]
    for segment in path[1][count:]:
        if isinstance(value, dict) and str(segment) in value:
            value = value[str(segment)]
        elif isinstance(value, list) and isinstance(segment, int) and segment < len(value):
            value = value[segment]
        else:
            raise NowhereError(inside)
    return value


def spoken(value: Any) -> str:
    """Say a value to an agent."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and list(value) == ["message"] and isinstance(value["message"], str):
        return value["message"]
    if isinstance(value, dict) and set(value) == {"blob", "bytes", "preview"}:
        return f"{value['preview']}… ({value['bytes']} bytes in all, stored as {value['blob']})"
    return text_of(value)


@dataclass
class Question:
    """Fills in what one agent is asked."""

    values: dict[str, dict[str, Any]]
    length: int = 0

    def asked(self, call: dict[str, Any], otherwise: str) -> str:
        """Return prompt and `with`; *otherwise* where there is neither."""
        said = [self.text(call["prompt"])] if call.get("prompt") else []
        if call.get("with"):
            said.append(text_of(self.filled(call["with"])))
        whole = "\n\n".join(said) if said else otherwise
        if len(whole) > ASKED_CHARS:
            raise TooMuchError
        return whole

    def text(self, template: str) -> str:
        """Fill in a text."""
        said = ""
        for kind, part in parts_of(template):
            said += self._more(part if kind == "words" else spoken(leads_to(part, self.values)))
        return said

    def filled(self, template: Any) -> Any:
        """Fill in JSON, its keys in their order; one reference alone keeps its type."""
        if isinstance(template, str):
            parts = parts_of(template.strip())
            if len(parts) == 1 and parts[0][0] == "braces":
                value = leads_to(parts[0][1], self.values)
                self._more(text_of(value))
                return value
            return self.text(template)
        if isinstance(template, dict):
            return {self._more(key): self.filled(template[key]) for key in sorted(template)}
        return [self.filled(part) for part in template] if isinstance(template, list) else template

    def _more(self, text: str) -> str:
        self.length += len(text)
        if self.length > ASKED_CHARS:
            raise TooMuchError
        return text


# Which plans are wrong, and where.


def faulty(plan: Any, agents: Any, bound: Any) -> set[str]:
    """Return the paths of everything that is wrong with *plan*; an empty path is the plan as a whole."""
    if not isinstance(plan, dict) or len(text_of(plan).encode()) > 256 * 1024:
        return {""}
    wrong = {name for name in ("id", "name", "description") if not isinstance(plan.get(name, ""), str)}
    own = plan.get("bindings", {})
    if not isinstance(own, dict):
        wrong.add("bindings")
        own = {}
    steps = plan.get("steps")
    if not isinstance(steps, list) or not 1 <= len(steps) <= STEPS:
        wrong.add("steps")
    if isinstance(steps, list):
        steps = [named(step, place) for place, step in enumerate(steps)]
        for place, step in enumerate(steps):
            wrong |= {f"steps[{place}]{path}" for path in _wrong_step(step, agents)}
        wrong |= _used_twice(steps) | _leading_nowhere(steps, {*bound, *own})
    return wrong


def named(step: Any, place: int) -> Any:
    """Give a step the name of its place where it has none; what is null is not there."""
    if not isinstance(step, dict):
        return step
    given = {name: value for name, value in step.items() if value is not None}
    return given if given.get("id") else {**given, "id": f"step_{place + 1:02d}"}


def calls_of(step: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return every agent that is written in a step, with its path."""
    if not isinstance(step, dict):
        return []
    found = [(".agent", step["agent"])] if isinstance(step.get("agent"), dict) else []
    block = step.get("parallel")
    inside = block.get("steps") if isinstance(block, dict) else None
    for place, call in enumerate(inside if isinstance(inside, list) else []):
        if isinstance(call, dict):
            found.append((f".parallel.steps[{place}]", call))
    return found


def _is_number(value: Any, most: float) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most)


def _is_name(value: Any, letters: frozenset[str]) -> bool:
    return isinstance(value, str) and len(value) <= 64 and set(value) <= letters


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most


def _wrong_step(step: Any, agents: Any) -> set[str]:
    if not isinstance(step, dict):
        return {""}
    wrong = {f".{name}" for name in step if name not in STEP_FIELDS}
    given = [name for name in ("agent", "parallel") if step.get(name) is not None]
    checks = {
        "id": _is_name(step["id"], LETTERS | {":"}),
        "type": step.get("type") in ("agent", "parallel") and (len(given) != 1 or given == [step["type"]]),
        "name": _is_text(step.get("name", ""), 160),
        "timeout_ms": _is_number(step.get("timeout_ms"), DAY_MS),
        "agent": step.get("agent") is None or isinstance(step["agent"], dict),
        "parallel": step.get("parallel") is None or isinstance(step["parallel"], dict),
    }
    wrong |= {f".{name}" for name, right in checks.items() if not right} | ({""} if len(given) != 1 else set())
    if isinstance(step.get("parallel"), dict):
        wrong |= {f".parallel{path}" for path in _wrong_block(step["parallel"])}
    for path, call in calls_of(step):
        wrong |= {f"{path}.{name}" for name in _wrong_call(call, agents)}
    return wrong


def _wrong_block(block: dict[str, Any]) -> set[str]:
    wrong = {f".{name}" for name in block if name not in BLOCK_FIELDS}
    inside = block.get("steps")
    if not isinstance(inside, list) or not 1 <= len(inside) <= AGENTS:
        wrong.add(".steps")
    for place, call in enumerate(inside if isinstance(inside, list) else []):
        if not isinstance(call, dict):
            wrong.add(f".steps[{place}]")
    if not _is_number(block.get("max_concurrency"), float("inf")):
        wrong.add(".max_concurrency")
    if block.get("merge_strategy", "collect") not in ("collect", "collect_all", "fail_fast", "first_success"):
        wrong.add(".merge_strategy")
    return wrong


def _wrong_call(call: dict[str, Any], agents: Any) -> set[str]:
    checks = {
        "agent_key": isinstance(call.get("agent_key"), str) and call["agent_key"] in agents,
        "prompt": _is_text(call.get("prompt", ""), 16_384),
        "with": isinstance(call.get("with", {}), dict),
        "result_key": _is_name(call.get("result_key", ""), LETTERS),
        "timeout_ms": _is_number(call.get("timeout_ms"), DAY_MS),
    }
    return {name for name, right in checks.items() if not right} | {name for name in call if name not in CALL_FIELDS}


def _used_twice(steps: list[Any]) -> set[str]:
    wrong, ids, keys = set(), set[str](), set[str]()
    for place, step in enumerate(steps):
        if not isinstance(step, dict):
            continue
        if step["id"] in ids:
            wrong.add(f"steps[{place}].id")
        ids |= {step["id"]} if isinstance(step["id"], str) else set()
        for path, call in calls_of(step):
            key = call.get("result_key")
            if key and key in keys:
                wrong.add(f"steps[{place}]{path}.result_key")
            keys |= {key} if key and isinstance(key, str) else set()
    for place, step in enumerate(steps):
        unnamed = any(not call.get("result_key") for _path, call in calls_of(step))
        if unnamed and step["id"] in keys:
            wrong.add(f"steps[{place}].id")
    return wrong


def _leading_nowhere(steps: list[Any], bound: set[str]) -> set[str]:
    wrong, results = set(), set[str]()
    for place, step in enumerate(steps):
        for path, call in calls_of(step):
            for name in ("prompt", "with"):
                if any(not _leads(inside, results, bound) for inside in _braces_in(call.get(name))):
                    wrong.add(f"steps[{place}]{path}.{name}")
        results |= {str(call.get("result_key") or step["id"]) for _path, call in calls_of(step)}
    return wrong


def _braces_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part for kind, part in parts_of(value) if kind == "braces"]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for one in inside for part in _braces_in(one)]


def _leads(inside: str, results: set[str], bound: set[str]) -> bool:
    path = path_of(inside)
    return path is not None and longest(path[1], results if path[0] == "result" else bound) > 0


def kept(value: Any) -> Any:
    """Return a result as it is kept: a large one as a reference."""
    text = text_of(value)
    size = len(text.encode())
    if size <= 16 * 1024:
        return value
    blob = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    return {"blob": blob, "bytes": size, "preview": spoken(value)[:2_000]}


@dataclass
class Child:
    """One agent of a step, as far as it is."""

    name: str
    agent: str
    status: str = "running"
    final: Any = None
    code: str = ""
    stopped: bool = False

    @property
    def over(self) -> str:
        """What its end counts as: success, failed or skipped; empty while it runs."""
        if self.status == "running":
            return ""
        if self.status == "completed":
            return "success"
        return "skipped" if self.stopped and self.status == "cancelled" else "failed"


Happened = tuple[Any, ...]
"""One thing that happened in a run: what, and about which step or agent."""


@dataclass
class Told:
    """What a run is to do: the steps as they are written, and what limits them."""

    steps: list[dict[str, Any]]
    message: str
    run_ms: int
    bindings: dict[str, Any] = field(default_factory=dict)
    most: int = WIDTH
    chain: bool = False
