"""Platforms under names of one's own: the address and the key of each, in one file that commands and clients read.

The file holds keys. It is written for its owner alone, whole or not at all, and read only while nobody else may read
or change it: who can put an address there is sent the key.
"""

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.file_owners import fault_above, fault_of_status, write_private

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
SCHEMES = ("http", "https", "nats", "tls")
BROKER_SCHEMES = ("nats://", "tls://")
_SCHEME = re.compile(r"[a-z]+://|(?:https?|nats|tls):/?")
_PORT = re.compile(r"\d{1,5}(?=[/?#]|$)")
_NO_PORT = re.compile(r":[^:\]]*$")
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
        return shown_address(self.server)


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
            except ProblemError as error:  # of a file that was changed by hand
                told = {"detail": f"{self.path}: {error.problem.detail}", "remedy": "Correct that in the file."}
                raise ProblemError(error.problem.model_copy(update=told)) from error
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                detail = f"{self.path} holds no contexts"  # the error may quote a key
                remedy = "Repair the file or remove it, and add the contexts again: towpath context add."
                raise ProblemError(problem("request_invalid", detail, remedy=remedy)) from error

    def add(self, context: PlatformContext) -> ContextList:
        """Keep *context*, in the place of one of that name; the first one is selected."""
        checked(context)
        with self._changing() as held:
            selected = held.selected or context.name
            return self._write(replace(held, selected=selected, contexts={**held.contexts, context.name: context}))

    def select(self, name: str) -> ContextList:
        """Make *name* the context that is used where nothing else is said; none with an empty name."""
        with self._changing() as held:
            if name:
                held.named(name)
            return self._write(replace(held, selected=name))

    def remove(self, name: str) -> ContextList:
        """Forget *name* and its key; none is selected then, if it was."""
        with self._changing() as held:
            held.named(name)
            left = {key: one for key, one in held.contexts.items() if key != name}
            return self._write(ContextList(selected="" if held.selected == name else held.selected, contexts=left))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[ContextList]:
        """Yield what the file holds; whoever else changes it waits meanwhile, so that no change is lost."""
        import fcntl

        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = self.path.with_name(f"{self.path.name}.lock")  # the file itself is replaced
        with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield self.read()

    def _write(self, held: ContextList) -> ContextList:
        contexts = [asdict(one) for one in held.contexts.values()]
        write_private(self.path, json.dumps({"selected": held.selected, "contexts": contexts}, indent=2))
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
    if not is_address(context.server):
        detail = f"context {context.name}: {address_fault(context.server)}"
        raise ProblemError(problem("request_invalid", detail))
    return context


def is_address(address: str) -> bool:
    """Return whether a platform can be at *address*; not where a login is cut short by a `/`, `?` or `#` in it.

    The nodes of a broker's cluster are one address, with commas between them.
    """
    if _is_list(address):
        parts_of_it = [one.strip() for one in address.split(",")]
        return all(one.startswith(BROKER_SCHEMES) and is_address(one) for one in parts_of_it)
    try:
        parts = urlsplit(address)
        is_whole = "@" not in f"{parts.path}{parts.query}{parts.fragment}" and "," not in (parts.hostname or "")
        return parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0 and is_whole
    except ValueError:
        return False


def shown_address(address: str) -> str:
    """Return *address* without a password that stands in it, or that is meant to where it is no address."""
    if _is_list(address) and is_address(address):
        return ",".join(shown_address(one.strip()) for one in address.split(","))
    if not is_address(address):
        _, at, place = address.rpartition("@")
        return f"***@{place}" if at else _without_secret(address)
    parts = urlsplit(address)
    _, at, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"***@{place}").geturl() if at else address


def _is_list(address: str) -> bool:
    return "," in address and address.startswith(BROKER_SCHEMES)


def _without_secret(text: str) -> str:
    """Return *text*, which is no address, without what stands where a port or a password does and is no port."""
    scheme = _SCHEME.match(text)
    begin = scheme.end() if scheme else 0
    colon = text.find("]:" if text[begin:].startswith("[") else ":", begin)
    after = text.find(":", colon) + 1 if colon >= 0 else 0
    return text if colon < 0 or _PORT.match(text, after) else f"{text[:after]}***"


def address_fault(server: str) -> str:
    """Return what is wrong with an address, in words that quote nothing that may be a password."""
    shown = shown_address(server)
    detail = f"{shown!r} is no address of a platform"
    if "@" in server:
        return f"{detail}; write http://… or nats://user:password@host:port"
    if "://" not in server:
        return f"{detail}; did you mean http://{shown}?"
    scheme, _, place = shown.partition("://")
    scheme, port = ("nats", 4222) if scheme.startswith("nat") else (scheme if scheme in SCHEMES else "http", 8787)
    try:
        _ = urlsplit(server).port
    except ValueError as error:  # its text quotes what may be a password
        if not str(error).startswith("Port"):
            return f"{detail}: its host can't be read; write e.g. http://127.0.0.1:8787"
        host = _NO_PORT.sub("", re.split("[/?#]", place, maxsplit=1)[0])
        instead = f"write e.g. {scheme}://{host}:{port}"
        hidden = " (it is not shown, since it may be a password)" if shown != server else ""
        return f"the port of {shown} is no number up to 65535{hidden}; {instead}"
    return f"{detail}; did you mean {scheme}://{place}?"


def _list_of(found: dict[str, Any]) -> ContextList:
    contexts = [checked(PlatformContext(**one)) for one in found["contexts"]]
    held = {one.name: one for one in contexts}
    selected = str(found["selected"])
    return ContextList(selected=selected if selected in held else "", contexts=held)
