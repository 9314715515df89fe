"""What is wrong with an objective or its files, before a run pursues it; and the files as the run begins with.

Pure. A task is refused whole; what is mounted is read-only, and its texts are stored before the run's first event,
which names their digests alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.json_schema import unusable_schema
from towpath_contracts.networks.background import BackgroundTask
from towpath_contracts.networks.spec import Snapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.workspace import MAX_MOUNT_BYTES, MAX_MOUNT_FILES, FileEntry, PathRefusedError, clean_path
from towpath_engine.publish.networks import model_is_known

OBJECTIVE_BYTES = 128 * 1024
"""Bytes of JSON, without mounted files. An objective goes into every request to a model."""

NEEDED = "plan_setup"


@dataclass(slots=True)
class Mounted:
    """The files of a task in the order of their paths, their texts by digest, and what is wrong with them."""

    files: tuple[FileEntry, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    problems: tuple[ProblemDetail, ...] = ()


def mounted(task: SubmitTask) -> Mounted:
    """Read the mounts of *task*; those of an objective count like the task's own."""
    named = [(f"/mounts/{place}", mount) for place, mount in enumerate(task.mounts)]
    if task.background is not None:
        own = enumerate(task.background.mounts)
        named += [(f"/background/mounts/{place}", mount) for place, mount in own]
    files: dict[str, FileEntry] = {}
    texts: dict[str, str] = {}
    problems: list[ProblemDetail] = []
    size = 0
    for pointer, mount in named:
        for place, file in enumerate(mount.files):
            at = f"{pointer}/files/{place}"
            data = file.content.encode()
            size += len(data) + len(file.path)
            try:
                path = clean_path(f"{mount.mount_path}/{file.path}" if mount.mount_path else file.path)
            except PathRefusedError as error:
                problems.append(ProblemDetail(pointer=f"{at}/path", code="path_invalid", detail=str(error)))
                continue
            if path in files:
                said = f"{path} is mounted twice"
                problems.append(ProblemDetail(pointer=f"{at}/path", code="path_invalid", detail=said))
            digest = digest_text(data)
            files[path] = FileEntry(path=path, digest=digest, size=len(data), read_only=True)
            texts[digest] = file.content
    problems += _too_large(files, size)
    ordered = tuple(files[path] for path in sorted(files))
    return Mounted(files=ordered, texts=texts, problems=tuple(problems))


def _too_large(files: dict[str, FileEntry], size: int) -> Iterator[ProblemDetail]:
    if len(files) > MAX_MOUNT_FILES:
        said = f"{len(files)} files are mounted; the limit is {MAX_MOUNT_FILES}"
        yield ProblemDetail(pointer="/mounts", code="request_too_large", detail=said)
    if size > MAX_MOUNT_BYTES:
        said = f"the mounted files have {size} bytes; the limit is {MAX_MOUNT_BYTES}"
        yield ProblemDetail(pointer="/mounts", code="request_too_large", detail=said)
    for path in files:
        folder = next((other for other in _above(path) if other in files), None)
        if folder is not None:
            said = f"{folder} can't be a file and the folder of {path}"
            yield ProblemDetail(pointer="/mounts", code="path_invalid", detail=said)


def _above(path: str) -> Iterator[str]:
    segments = path.split("/")
    for length in range(1, len(segments)):
        yield "/".join(segments[:length])


def objective_problems(
    background: BackgroundTask | None, snapshot: Snapshot, agent_key: str | None
) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with an objective on this network, each at its place in the task."""
    if background is None:
        return
    size = len(canonical_json(background.model_dump(mode="json", exclude={"mounts"})).encode())
    if size > OBJECTIVE_BYTES:
        said = f"the objective with its sections has {size} bytes; the limit is {OBJECTIVE_BYTES}"
        yield ProblemDetail(pointer="/background", code="request_too_large", detail=said)
    if background.deliverable_schema is not None and (fault := unusable_schema(background.deliverable_schema)):
        pointer = "/background/deliverable_schema"
        yield ProblemDetail(pointer=pointer, code="deliverable_schema_invalid", detail=fault)
    model = background.settings.summarize_model if background.settings is not None else None
    if model is not None and not model_is_known(model):
        said = f"{model!r} is not provider:model"
        yield ProblemDetail(pointer="/background/settings/summarize_model", code="model_unknown", detail=said)
    agent = snapshot.agents.get(agent_key or snapshot.default_agent_key)
    if agent is not None and NEEDED not in agent.equipped_tools:
        said = f"{agent.key} can't plan: equip it with {NEEDED}, plan_mark_step and the other plan tools"
        yield ProblemDetail(pointer="/agent_key", code="plan_tools_missing", detail=said)
