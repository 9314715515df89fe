"""How a file names a secret, which is never written in it: `${env:NAME}` or `${file:PATH}`."""

import re

REFERENCE = re.compile(r"\$\{(env|file):([^{}]+)\}")
_BEGINNING = re.compile(r"\$\{")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def holds_reference(text: str) -> bool:
    """Return whether *text* looks as if it names a secret."""
    return _BEGINNING.search(text) is not None


def reference_fault(text: str) -> str:
    """Return what is wrong with the references in *text*, or an empty string."""
    if len(_BEGINNING.findall(text)) != len(REFERENCE.findall(text)):
        return "a reference is ${env:NAME} or ${file:PATH}"
    for kind, name in REFERENCE.findall(text):
        if kind == "env" and not _VARIABLE.fullmatch(name):
            return f"{name!r} is no name of an environment variable"
        if kind == "env" and name.upper().startswith("TOWPATH_"):
            return f"{name} is the platform's own and is not given to a server"
    return ""
