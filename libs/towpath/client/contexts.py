"""Platforms under names of one's own: the address and the key of each, in one file that commands and clients read.

The file holds keys. It is written for its owner alone, whole or not at all, and read only while nobody else may read
or change it: who can put an address there is sent the key.
"""

import json
import os
import re
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.file_owners import fault_above, fault_of_status

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
SCHEMES = ("http", "https", "nats", "tls")
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformContext:
    """A platform under a name; its key is part of no text that is made of it."""

    name: str
    server: str = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    description: str = ""

    @property
    def shown_server(self) -> str:
        """The address without a password that stands in it."""
        parts = urlsplit(self.server)
        _, at, place = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"***@{place}").geturl() if at else self.server


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextList:
    """What the file holds: contexts by name, and which of them is selected."""

    selected: str = ""
    contexts: dict[str, PlatformContext] = field(default_factory=dict)

    def named(self, name: str) -> PlatformContext:
        """Return the context *name*; raises ProblemError `not_found` with those there are."""
        if name in self.contexts:
            return self.contexts[name]
        listed = ", ".join(self.contexts) or "none"
        remedy = "Name one of them, or add it: towpath context add NAME --server URL."
        raise ProblemError(problem("not_found", f"no context is called {name}; there are: {listed}", remedy=remedy))


class ContextFile:
    """The file of contexts at *path*."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> ContextList:
        """Return what the file holds, nothing where there is none; raises ProblemError where it can't be trusted."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ContextList()
        except OSError as error:
            raise ProblemError(problem("file_missing", f"{self.path}: {error.strerror}")) from error
        with os.fdopen(descriptor, encoding="utf-8") as opened:
            self._check(os.fstat(opened.fileno()))
            try:
                return _list_of(json.load(opened))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                detail = f"{self.path} holds no contexts"  # the error may quote a key
                remedy = "Repair the file or remove it, and add the contexts again: towpath context add."
                raise ProblemError(problem("request_invalid", detail, remedy=remedy)) from error

    def add(self, context: PlatformContext) -> ContextList:
        """Keep *context*, in the place of one of that name; the first one is selected."""
        checked(context)
        held = self.read()
        selected = held.selected or context.name
        return self._write(replace(held, selected=selected, contexts={**held.contexts, context.name: context}))

    def select(self, name: str) -> ContextList:
        """Make *name* the context that is used where nothing else is said; none with an empty name."""
        held = self.read()
        if name:
            held.named(name)
        return self._write(replace(held, selected=name))

    def remove(self, name: str) -> ContextList:
        """Forget *name* and its key; none is selected then, if it was."""
        held = self.read()
        held.named(name)
        left = {key: one for key, one in held.contexts.items() if key != name}
        return self._write(ContextList(selected="" if held.selected == name else held.selected, contexts=left))

    def _write(self, held: ContextList) -> ContextList:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        making = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        making.unlink(missing_ok=True)
        contexts = [asdict(one) for one in held.contexts.values()]
        with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            json.dump({"selected": held.selected, "contexts": contexts}, opened, indent=2)
        making.replace(self.path)
        return held

    def _check(self, status: os.stat_result) -> None:
        trusted = {os.getuid()}
        fault = fault_of_status(status, trusted) or fault_above(self.path, trusted)
        if fault is None and not stat.S_ISREG(status.st_mode):
            fault = "is not a file"
        if fault is None and status.st_mode & _FOR_OTHERS:
            fault = "can be read by other users"
        if fault is not None:
            detail = f"{self.path}: {fault}, and it holds keys, so nothing of it is used"
            remedy = f"Close it, and make new keys if others have read it: chmod 600 {self.path}"
            raise ProblemError(problem("contexts_shared", detail, remedy=remedy))


def checked(context: PlatformContext) -> PlatformContext:
    """Return *context*; raises ProblemError for a name or an address that can't be one."""
    if NAME.fullmatch(context.name) is None:
        detail = f"{context.name!r} is no name of a context: small letters, digits, and . _ - between them"
        raise ProblemError(problem("request_invalid", detail))
    try:
        parts = urlsplit(context.server)
        is_address = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        detail = f"{context.shown_server!r} is no address of a platform; write https://… or nats://…"
        raise ProblemError(problem("request_invalid", detail))
    return context


def _list_of(found: dict[str, Any]) -> ContextList:
    contexts = [checked(PlatformContext(**one)) for one in found["contexts"]]
    held = {one.name: one for one in contexts}
    selected = str(found["selected"])
    return ContextList(selected=selected if selected in held else "", contexts=held)
