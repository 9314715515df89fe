"""The workspace tools: virtual text files of one run.

A path never leads out of the workspace, a mounted file is never changed, and a call that fails changes nothing. Every
write makes a new version, whose text is a blob named by its digest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.canonical import digest_text
from towpath_contracts.glob_patterns import MAX_PATTERN, matching_paths
from towpath_contracts.tools.internal_tools import (
    MAX_LIST_BYTES,
    MAX_MATCHES,
    MAX_READ_BYTES,
    MAX_READ_CHARS,
    READ_CHARS,
)
from towpath_contracts.tools.workspace import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_NAMES_BYTES,
    MAX_WORKSPACE_BYTES,
    MAX_WRITE_CHARS,
    FileChange,
    LostChangesReason,
    PathRefusedError,
    clean_path,
)
from towpath_engine.rules.tool_result import ContentMissingError, InternalToolError, InternalToolResult, read_arguments
from towpath_engine.state.limits import json_bytes, take_while_fitting
from towpath_engine.state.workspace import WorkspaceFile

Files = Mapping[str, WorkspaceFile]
Contents = Mapping[str, str]

LINE_CHARS = 200
"""Of a line that a search found."""

LOST = {
    "workspace_full": "they are too many, or too large",
    "changes_refused": "there is something that can't be a text file of the run",
    "workspace_unreadable": "the copy could not be read any more",
    "result_not_stored": "they could not be stored",
    "content_missing": "what they hold is not stored",
}
"""Why what a tool changed is not taken, by code."""

ESCAPED = 6
"""Bytes of a character in JSON, at most."""


class _Folder(ClientMessagePart):
    path: str = ""


class _Read(ClientMessagePart):
    path: str
    from_line: int = Field(default=1, ge=1)
    max_chars: int = Field(default=READ_CHARS, ge=1, le=MAX_READ_CHARS)


class _Write(ClientMessagePart):
    path: str
    content: str = Field(max_length=MAX_WRITE_CHARS)
    mode: Literal["create", "overwrite", "append"] = "create"


class _FileEdit(ClientMessagePart):
    path: str
    old: str = Field(min_length=1, max_length=MAX_WRITE_CHARS)
    new: str = Field(max_length=MAX_WRITE_CHARS)
    all: bool = False


class _Glob(ClientMessagePart):
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN)


class _Grep(ClientMessagePart):
    text: str = Field(min_length=1, max_length=512)
    pattern: str | None = Field(default=None, min_length=1, max_length=MAX_PATTERN)
    ignore_case: bool = False


class _Delete(ClientMessagePart):
    path: str


def apply_workspace(tool: str, args: JsonObject, files: Files, contents: Contents) -> InternalToolResult:
    """Apply a workspace tool; raises InternalToolError, and ContentMissingError where a text is not in *contents*."""
    return _TOOLS[tool](args, files, contents)


def texts_needed(tool: str, args: JsonObject, files: Files) -> frozenset[str]:
    """Return the digests of the texts that a call reads; none for one that will be refused."""
    pattern, path = args.get("pattern"), args.get("path")
    if tool == "workspace_grep":
        wanted: Iterable[str] = _searched(pattern, files)
    elif tool in ("workspace_read", "workspace_edit") or args.get("mode") == "append":
        wanted = [_lenient(path)] if isinstance(path, str) else []
    else:
        wanted = []
    return frozenset(files[name].digest for name in wanted if name in files)


def _searched(pattern: object, files: Files) -> Iterable[str]:
    if not isinstance(pattern, str):
        return files
    return matching_paths(pattern, files) if len(pattern) <= MAX_PATTERN else ()


def _lenient(path: str) -> str:
    return "/".join(segment for segment in path.split("/") if segment)


def _list(args: JsonObject, files: Files, _contents: Contents) -> InternalToolResult:
    asked = read_arguments(_Folder, args)
    folder = _path(asked.path) if asked.path.strip("/. ") else ""
    if folder in files:
        raise InternalToolError("path_is_file", f"{folder} is a file; read it, or list its folder")
    inside = [name for name in sorted(files) if not folder or name.startswith(f"{folder}/")]
    if folder and not inside:
        raise InternalToolError("path_unknown", f"there is no folder {folder}")
    rests = [name[len(folder) + 1 if folder else 0 :] for name in inside]
    folders = sorted({rest.partition("/")[0] + "/" for rest in rests if "/" in rest})
    shown = [
        {"name": rest, "size": files[name].size, "version": files[name].version, "read_only": files[name].read_only}
        for name, rest in zip(inside, rests, strict=True)
        if "/" not in rest
    ]
    first = take_while_fitting(folders, MAX_LIST_BYTES // 2)
    result: JsonObject = {
        "path": folder,
        "folders": first,
        "files": take_while_fitting(shown, MAX_LIST_BYTES - json_bytes(first)),
    }
    left_out = len(folders) + len(shown) - len(result["folders"]) - len(result["files"])
    return InternalToolResult(result={**result, "left_out": left_out} if left_out else result)


def _read(args: JsonObject, files: Files, contents: Contents) -> InternalToolResult:
    asked = read_arguments(_Read, args)
    name = _known(asked.path, files)
    lines = _text(name, files, contents).splitlines(keepends=True)
    if asked.from_line > max(1, len(lines)):
        raise InternalToolError("line_unknown", f"{name} has {len(lines)} lines")
    taken: list[str] = []
    chars, size, last, cut = asked.max_chars, MAX_READ_BYTES, asked.from_line - 1, False
    for line in lines[asked.from_line - 1 :]:
        weight = json_bytes(line) - len('""')
        if len(line) > chars or weight > size:
            if not taken:
                taken.append(line[: chars if weight <= size else min(chars, size // ESCAPED)])
                last, cut = last + 1, True
            break
        taken.append(line)
        chars, size = chars - len(line), size - weight
        last += 1
    result: JsonObject = {"path": name, "version": files[name].version, "content": "".join(taken), "lines": len(lines)}
    return InternalToolResult(
        result={**result, "from_line": asked.from_line, "to_line": last, "complete": last == len(lines) and not cut}
    )


def _write(args: JsonObject, files: Files, contents: Contents) -> InternalToolResult:
    asked = read_arguments(_Write, args)
    name = _path(asked.path)
    if asked.mode == "create":
        _refuse_taken(name, files)
        return _stored(name, asked.content, files)
    _known(name, files)
    _refuse_read_only(name, files)
    before = _text(name, files, contents) if asked.mode == "append" else ""
    return _stored(name, before + asked.content, files)


def _edit(args: JsonObject, files: Files, contents: Contents) -> InternalToolResult:
    asked = read_arguments(_FileEdit, args)
    name = _known(asked.path, files)
    _refuse_read_only(name, files)
    text = _text(name, files, contents)
    count = text.count(asked.old)
    if count == 0:
        raise InternalToolError(
            "text_not_found", f"{name} does not hold that text", "Read the file and copy the piece."
        )
    if count > 1 and not asked.all:
        hint = "Give more of the text around it, or say that all are meant."
        raise InternalToolError("text_not_unique", f"{name} holds that text {count} times", hint)
    # Before the text is made: many short pieces that become long ones are more than a process can hold.
    size = _bytes(text) + count * (_bytes(asked.new) - _bytes(asked.old))
    check_sizes(files, (FileChange(path=name, digest=files[name].digest, size=size),))
    return _stored(name, text.replace(asked.old, asked.new), files, replaced=count)


def _glob(args: JsonObject, files: Files, _contents: Contents) -> InternalToolResult:
    asked = read_arguments(_Glob, args)
    found = matching_paths(asked.pattern, files)
    return InternalToolResult(result={"paths": take_while_fitting(found[:MAX_MATCHES]), "count": len(found)})


def _grep(args: JsonObject, files: Files, contents: Contents) -> InternalToolResult:
    asked = read_arguments(_Grep, args)
    names = sorted(files) if asked.pattern is None else matching_paths(asked.pattern, files)
    wanted = asked.text.casefold() if asked.ignore_case else asked.text
    matches: list[JsonObject] = []
    count = 0
    for name in names:
        text = _text(name, files, contents)
        places = _lines_with(wanted, text.casefold() if asked.ignore_case else text)
        count += len(places)
        shown = places[: MAX_MATCHES - len(matches)]
        lines = text.splitlines() if shown else []
        matches += [{"path": name, "line": place + 1, "text": lines[place][:LINE_CHARS]} for place in shown]
    return InternalToolResult(result={"matches": take_while_fitting(matches), "count": count, "files": len(names)})


def _lines_with(wanted: str, text: str) -> list[int]:
    """Return the places of the lines that hold *wanted*; a text that is nowhere costs a look at the whole alone."""
    return [place for place, line in enumerate(text.splitlines()) if wanted in line] if wanted in text else []


def _delete(args: JsonObject, files: Files, _contents: Contents) -> InternalToolResult:
    name = _path(read_arguments(_Delete, args).path)
    gone = [known for known in sorted(files) if known == name or known.startswith(f"{name}/")]
    if not gone:
        raise InternalToolError("path_unknown", f"there is no file or folder {name}")
    for known in gone:
        _refuse_read_only(known, files)
    result: JsonObject = {"deleted": take_while_fitting(gone)}
    if len(result["deleted"]) < len(gone):
        result["left_out"] = len(gone) - len(result["deleted"])
    return InternalToolResult(result=result, changes=tuple(FileChange(path=known) for known in gone))


_TOOLS: dict[str, Callable[[JsonObject, Files, Contents], InternalToolResult]] = {
    "workspace_list": _list,
    "workspace_read": _read,
    "workspace_write": _write,
    "workspace_edit": _edit,
    "workspace_glob": _glob,
    "workspace_grep": _grep,
    "workspace_delete": _delete,
}


def check_sizes(files: Files, changes: Iterable[FileChange]) -> None:
    """Raise InternalToolError where *changes* would make the workspace larger than it may be."""
    sizes = {name: file.size for name, file in files.items()}
    named = 0
    for change in changes:
        named += len(change.path)
        if change.digest is None:
            sizes.pop(change.path, None)
            continue
        if change.size > MAX_FILE_BYTES:
            what = f"{change.path} would have {change.size} bytes; the limit is {MAX_FILE_BYTES}"
            raise InternalToolError("file_too_large", what)
        sizes[change.path] = change.size
    if len(sizes) > MAX_FILES:
        raise InternalToolError("workspace_full", f"{len(sizes)} files; the limit is {MAX_FILES}")
    own = sum(len(name) for name in sizes if name not in files or not files[name].read_only)
    if max(own, named) > MAX_NAMES_BYTES:
        raise InternalToolError(
            "workspace_full", f"the names of files would have {max(own, named)} bytes; the limit is {MAX_NAMES_BYTES}"
        )
    total = sum(sizes.values())
    if total > MAX_WORKSPACE_BYTES:
        raise InternalToolError(
            "workspace_full", f"all files together would have {total} bytes; the limit is {MAX_WORKSPACE_BYTES}"
        )


def checked_changes(files: Files, changes: Iterable[FileChange], *, scratch: bool) -> tuple[FileChange, ...]:
    """Return a change set as it may be taken; raises InternalToolError for one that may not."""
    if not scratch:
        raise InternalToolError("changes_refused", "the tool was given no scratch copy")
    found: dict[str, FileChange] = {}
    for change in changes:
        name = _path(change.path)
        if name in files:
            _refuse_read_only(name, files)
        found[name] = change.model_copy(update={"path": name})
    after = {name for name in (*files, *found) if name not in found or found[name].digest is not None}
    folders = set[str]().union(*map(_folders_of, after))
    for name, change in found.items():
        if change.digest is not None and name in folders:
            raise InternalToolError("path_taken", f"{name} is a folder")
        if change.digest is not None and not after.isdisjoint(_folders_of(name)):
            raise InternalToolError("path_taken", f"a folder of {name} is a file")
    check_sizes(files, found.values())
    return tuple(found[name] for name in sorted(found))


def why_lost(lost: LostChangesReason) -> InternalToolError:
    """Return why changes can't be taken; the worker's message is shortened, and the name of a file is quoted."""
    why = LOST.get(lost.code, lost.code)
    return InternalToolError(lost.code, f"{why}: {lost.path!a}" if lost.path else why)


def _folders_of(name: str) -> set[str]:
    parts = name.split("/")
    return {"/".join(parts[:length]) for length in range(1, len(parts))}


def _stored(name: str, text: str, files: Files, **more: int) -> InternalToolResult:
    change = FileChange(path=name, digest=digest_text(text), size=_bytes(text))
    check_sizes(files, (change,))
    version = files[name].version + 1 if name in files else 1
    result: JsonObject = {"path": name, "version": version, "size": change.size, **more}
    return InternalToolResult(result=result, changes=(change,), stored={change.digest or "": text})


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _path(text: str) -> str:
    try:
        return clean_path(text)
    except PathRefusedError as error:
        raise InternalToolError("path_invalid", str(error)) from error


def _known(text: str, files: Files) -> str:
    name = _path(text)
    if name not in files:
        near = [known for known in sorted(files) if known.rpartition("/")[2] == name.rpartition("/")[2]][:5]
        hint = f"Files of that name: {', '.join(near)}." if near else "List the workspace to see what is there."
        raise InternalToolError("path_unknown", f"there is no file {name}", hint)
    return name


def _refuse_taken(name: str, files: Files) -> None:
    """A name is a file or a folder, never both."""
    if name in files:
        raise InternalToolError("path_taken", f"{name} is there already; overwrite, append to or edit it")
    if any(known.startswith(f"{name}/") for known in files):
        raise InternalToolError("path_taken", f"{name} is a folder")
    segments = name.split("/")
    above = next((part for i in range(1, len(segments)) if (part := "/".join(segments[:i])) in files), None)
    if above is not None:
        raise InternalToolError("path_taken", f"{above} is a file, so nothing can be in it")


def _refuse_read_only(name: str, files: Files) -> None:
    if files[name].read_only:
        raise InternalToolError(
            "file_read_only", f"{name} is mounted and read-only", "Write what you change to another path."
        )


def _text(name: str, files: Files, contents: Contents) -> str:
    found = contents.get(files[name].digest)
    if found is None:
        raise ContentMissingError(name)
    return found
