"""Publishes the networks of a folder through the gateway, and again when a file changes.

For a file that can't be published every problem is shown, and the version that was published before stays and is named.
So does a version that somebody published elsewhere, until the file changes or is saved once more. A tool that nobody
has registered is told at once, since most are misspelt; whether it has come meanwhile is looked at for a while.
Two files never publish under one name, for the later one would replace the other's network: the one that had the name
first keeps it, and at the start the first by its file's name.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import httpx2
import yaml
from pydantic import ValidationError

from towpath.errors import RefusedError
from towpath.networks.spec_files import declared_twice, locate_refusal
from towpath.project.network_files import has_network, network_files
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem, problem
from towpath_embedded.local_access import NO_AUTHORITIES
from towpath_embedded.network_files.script_watch import ScriptWatch
from towpath_embedded.processes.supervisor import Notice
from towpath_embedded.refused_files import ShowRefused
from towpath_readings.yaml_lines import locate_yaml_fault

POLL_S = 0.5
HTTP_TIMEOUT_S = 15.0
TOOLS_TIMEOUT_S = 20.0
"""For how long a tool that nobody has registered may still come: of a worker that is just started, or a slow server."""

RETRY_S = 0.5
FILE_LIMIT_BYTES = 4 * 1024 * 1024
_GONE, _AGAIN, _TOOLS = -1, -2, -3  # in place of the time of a change
_TOOL_UNKNOWN = "tool_unknown"


class NetworkFolderPublisher:
    """The network files of one folder (or one file) and what was published of them.

    A *model* decides where a file names one that only plays what was written. What was published is remembered in the
    file *memory*, where there is to be one. With *awaits_tools* the first look waits for tools that are not registered.
    *refused* gets files with what is wrong, *refused_new* those of which nothing was published before.
    *scripts* looks, as often as this does, at those that the published networks play.
    """

    def __init__(
        self,
        place: Path,
        gateway_url: str,
        notice: Notice,
        *,
        model: str = "",
        memory: Path | None = None,
        refused: ShowRefused | None = None,
        refused_new: ShowRefused | None = None,
        awaits_tools: bool = False,
        scripts: ScriptWatch | None = None,
    ) -> None:
        self._place = place
        self._awaits_tools = awaits_tools
        self._scripts = scripts
        self._model = model
        self._url = f"{gateway_url}/v1/networks"
        self._notice = notice
        self._seen: dict[Path, int] = {}
        self._show = refused or self._tell_refused
        self._show_new = refused_new or self._show
        self._faulty: set[Path] = set()
        self._named: dict[Path, str] = {}
        self._tried_until: dict[Path, float] = {}
        self._names_taken: dict[Path, str] = {}
        self._memory = memory
        self._published = _remembered(memory)
        self._specs: dict[str, JsonObject] = {}

    @property
    def specs(self) -> Collection[JsonObject]:
        """The networks of the folder that are published."""
        return self._specs.values()

    def counts(self) -> dict[str, int]:
        """Return how many networks of the folder are published, with how many agents and different tools.

        Those whose files were refused, and that stay as an earlier start published them, are counted apart.
        """
        agents = [agent for spec in self._specs.values() for agent in spec.get("agents", ())]
        tools = {tool for agent in agents for tool in agent.get("equipped_tools") or ()}
        stayed = {self._named.get(path, "") for path in self._faulty} & (self._published.keys() - self._specs.keys())
        return {"networks": len(self._specs), "agents": len(agents), "tools": len(tools), "stayed": len(stayed)}

    async def publish_changed(self) -> bool:
        """Publish every file that is new or changed since the last call; each result is one notice.

        Returns whether anything was published.
        """
        files = network_files(self._place)
        self._forget_all_but(files)
        published = [await self._look_at(path) for path in files]
        self._awaits_tools = False
        if self._scripts is not None:
            self._scripts.look(self.specs)
        return any(published)

    async def _look_at(self, path: Path) -> bool:
        changed_at = _changed_at(path)
        is_as_before = self._seen.get(path) == changed_at
        if changed_at is None or (is_as_before and not self._is_tried_again(path)):
            return False
        is_saved, is_for_tools = path in self._seen, self._seen.get(path) == _TOOLS
        self._seen[path] = changed_at
        if not is_as_before:
            self._tried_until.pop(path, None)
        is_told = (is_as_before and self._names_taken.pop(path, None) is None) or (
            is_for_tools and path in self._faulty
        )
        spec = self._read(path)
        if spec is None:
            return False
        before, name = self._named.pop(path, ""), str(spec.get("name") or "")
        if (owner := self._owner(name)) is not None:
            self._refuse_name(path, name, owner)
            self._tell_left(before, f"{path.name} has another network now")
            return False
        self._named[path] = name
        try:
            is_mended, version = path in self._faulty and before == name, self._published.get(name, {}).get("version")
            result = await self._publish(spec, is_saved=is_saved and not is_for_tools, is_mended=is_mended)
        except RefusedError as error:
            if not is_told:
                self._await_tools(path, error)
                self._refused(path, network_faults(path, error))
            return False
        self._tried_until.pop(path, None)
        if not is_for_tools or path in self._faulty or version != self._published.get(name, {}).get("version"):
            self._notice(f"{path.name}: {result}")
        self._refused(path, ())
        self._tell_left(before, f"{path.name} has another network now")
        return True

    def _owner(self, name: str) -> Path | None:
        """Return the file that has the name *name*, also where something else is wrong with it."""
        return next((path for path, named in self._named.items() if name and named == name), None)

    def _refuse_name(self, path: Path, name: str, owner: Path) -> None:
        self._names_taken[path] = name
        try:
            found = declared_twice(path, name, owner).problem
        except RefusedError as error:  # it was changed or removed meanwhile, which the next look finds
            found = error.problem
        self._refused(path, [one.detail for one in found.errors] or [found.detail])

    def _tell_left(self, name: str, why: str) -> None:
        """Tell that the network *name* stays, where no file has it any more."""
        if name in self._published and name not in self._named.values():
            version = self._published[name]["version"]
            self._notice(f"{why}; {name} stays published as version {version}, and can be run")

    def _await_tools(self, path: Path, error: RefusedError) -> None:
        if _TOOL_UNKNOWN in {error.problem.code, *(one.code for one in error.problem.errors)}:
            self._tried_until[path] = asyncio.get_running_loop().time() + TOOLS_TIMEOUT_S

    def _is_tried_again(self, path: Path) -> bool:
        taken = self._names_taken.get(path)
        if taken is not None:
            return self._owner(taken) is None
        return self._tried_until.get(path, 0.0) > asyncio.get_running_loop().time()

    def _forget_all_but(self, files: Sequence[Path]) -> None:
        """What was wrong with a file that is gone is over; once it is there again, it is one that was saved."""
        for path in self._seen.keys() - set(files):
            if self._seen[path] != _GONE:
                self._seen[path] = _GONE
                self._refused(path, ())
                self._tell_left(self._named.pop(path, ""), f"{path.name} is gone")

    def _refused(self, path: Path, faults: Sequence[str]) -> None:
        """Tell what is wrong with *path*; that it is mended only where that was told, for it may be another's file."""
        if faults or path in self._faulty:
            (self._faulty.add if faults else self._faulty.discard)(path)
            is_new = self._named.get(path, "") not in self._published
            (self._show_new if is_new else self._show)(str(path), faults)
        name = self._named.get(path, "")
        if faults and name in self._published:
            self._notice(f"{path.name}: runs of {name} go on with version {self._published[name]['version']}")

    def _tell_refused(self, file: str, faults: Sequence[str]) -> None:
        if faults:
            self._notice(f"{Path(file).name}: not published. {'; '.join(faults)}")

    def publish_again(self) -> None:
        """Have `watch` publish every file as if it had just been saved, over what others have published since."""
        self._seen = {path: seen if seen == _GONE else _AGAIN for path, seen in self._seen.items()}

    def tools_changed(self) -> None:
        """Have `watch` publish what the tools that a worker has now make of the files; a version of others stays."""
        self._seen = {path: seen if seen == _GONE else _TOOLS for path, seen in self._seen.items()}

    async def watch(self, published: Callable[[], Awaitable[None]] | None = None) -> None:
        """Publish changes until cancelled; *published* is called after each that was."""
        while True:
            await asyncio.sleep(POLL_S)
            if await self.publish_changed() and published is not None:
                await published()

    def _read(self, path: Path) -> JsonObject | None:
        """The network in *path*; None for another kind of file, or for one that can't be read, which gives a notice."""
        text = ""
        try:
            text = _text(path)
            content: Any = yaml.safe_load(text)
        except yaml.YAMLError as error:
            self._refused(path, [locate_yaml_fault(path, error, text)])
            return None
        except (OSError, ValueError) as error:
            self._refused(path, [f"{path.name} can't be read: {' '.join(str(error).split())}"])
            return None
        if not has_network(content):
            self._refused(path, ())
            self._tell_left(self._named.pop(path, ""), f"{path.name} has no network any more")
            return None
        plays = str(content.get("model", "scripted:task")).startswith("scripted:")
        return {**content, "model": self._model} if self._model and plays else content

    async def _publish(self, spec: JsonObject, *, is_saved: bool, is_mended: bool) -> str:
        loop = asyncio.get_running_loop()
        end = loop.time() + TOOLS_TIMEOUT_S
        name, written = str(spec.get("name")), _digest(spec)
        body: JsonObject = {"spec": spec}
        before = self._published.get(name)
        if before is not None and before["written"] == written and not is_saved:
            body["if_version"] = before["version"]  # its tools may have changed; a version of somebody else stays
        while True:
            status, answer = await self._post(body)
            if status < 300:
                self._remember(name, written, answer.get("version"))
                self._specs[name] = spec
                again = ", in force again" if is_mended and before is not None else ""
                return f"network {answer.get('name', name)} version {answer.get('version')}{again}"
            codes = {answer.get("code"), *(entry.get("code") for entry in answer.get("errors", ()))}
            if "network_moved" in codes:
                return f"not published again: {answer.get('detail')}. Save the file to publish it over that."
            soon = {"unavailable", _TOOL_UNKNOWN} if self._awaits_tools else {"unavailable"}
            if not codes & soon or loop.time() > end:
                raise RefusedError(_problem(answer))
            await asyncio.sleep(RETRY_S)

    def _remember(self, name: str, written: str, version: Any) -> None:
        self._published[name] = {"written": written, "version": version}
        if self._memory is not None:
            self._memory.write_text(json.dumps(self._published))

    async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
        try:
            # The address holds the platform's token, which no proxy of the environment is to see.
            async with httpx2.AsyncClient(verify=NO_AUTHORITIES, timeout=HTTP_TIMEOUT_S, trust_env=False) as client:
                response = await client.post(self._url, json=body)
                answer: Any = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            return 503, {"code": "unavailable", "detail": f"{type(error).__name__}: {error}"}
        return response.status_code, answer if isinstance(answer, dict) else {}


def _remembered(memory: Path | None) -> dict[str, JsonObject]:
    try:
        found: Any = json.loads(memory.read_text()) if memory is not None else {}
    except (OSError, ValueError):  # of a first start, or of one that was cut off
        return {}
    return found if isinstance(found, dict) else {}


def _digest(spec: JsonObject) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True, default=str).encode()).hexdigest()


def _text(path: Path) -> str:
    """Read *path*; raise ValueError when it is too large to be a network."""
    if path.stat().st_size > FILE_LIMIT_BYTES:
        raise ValueError(f"it is larger than {FILE_LIMIT_BYTES} bytes")
    return path.read_text("utf-8")


def _changed_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it was removed since the folder was read
        return None


def _problem(answer: JsonObject) -> Problem:
    try:
        return Problem.model_validate(answer)
    except ValidationError:
        return problem("internal", f"the gateway gave no answer that can be read: {answer.get('detail', '')}")


def network_faults(path: Path, error: RefusedError) -> list[str]:
    """Return what is wrong with the file at *path*, each with its line where that is known."""
    try:
        found = locate_refusal(path, error).problem
    except RefusedError:  # it was changed or removed meanwhile, which the next look finds
        found = error.problem
    told = [one.detail for one in found.errors] or [found.detail or found.title]
    return [one if one.startswith(f"{path}:") else f"{path}: {one}" for one in told]
