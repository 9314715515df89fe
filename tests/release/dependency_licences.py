"""The licences of what the extras install, held to the list of those that a release may depend on.

Licences are read from the metadata of the packages that are installed here, so the development environment has to be
installed. A licence that nobody has looked at, and one that asks something of whoever passes the program on, is refused
until `licences.yaml` names the package and says why it may be there.
"""

from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from license_expression import ExpressionError, get_spdx_licensing
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict
from tests.supply_chain.bill_of_materials import stated_licences

RULES = Path(__file__).with_name("licences.yaml")
SPDX = get_spdx_licensing()


class LicenceException(BaseModel):
    """A package that may be depended on under this licence, which is not one of the permitted ones, and why."""

    model_config = ConfigDict(extra="forbid")

    licence: str
    why: str


class LicenceRules(BaseModel):
    """What `licences.yaml` says."""

    model_config = ConfigDict(extra="forbid")

    permitted: frozenset[str]
    names: dict[str, str]
    packages: dict[str, str]
    exceptions: dict[str, LicenceException]


def read_rules(path: Path = RULES) -> LicenceRules:
    """Return the rules of *path*."""
    return LicenceRules.model_validate(yaml.safe_load(path.read_text("utf-8")))


def dependencies(wanted: Iterable[str]) -> tuple[dict[str, metadata.Distribution], set[str]]:
    """Return what *wanted*, requirements with any extra, install here in the end, and what of it is not installed."""
    waiting = [(Requirement(line), "") for line in wanted]
    extras = {_extra(requirement) for requirement, _ in waiting} | {""}
    waiting = [(requirement, extra) for requirement, _ in waiting for extra in extras]
    seen: set[tuple[str, str, str]] = set()
    found: dict[str, metadata.Distribution] = {}
    absent: set[str] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for inner in ("", *requirement.extras):
            if (name, inner, str(requirement.specifier)) in seen:
                continue
            seen.add((name, inner, str(requirement.specifier)))
            try:
                found[name] = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                absent.add(name)
                continue
            waiting += [(Requirement(line), inner) for line in found[name].requires or ()]
    return found, absent


def _extra(requirement: Requirement) -> str:
    """Return the extra that *requirement* belongs to in the metadata of a package."""
    _, is_of_one, extra = str(requirement.marker or "").rpartition('extra == "')
    return extra.partition('"')[0] if is_of_one else ""


def licence_list(packages: dict[str, metadata.Distribution], rules: LicenceRules) -> dict[str, str]:
    """Return the SPDX expression of each package; what it states itself where that is unknown, empty for nothing."""
    return {name: rules.packages.get(name) or _spdx(found, rules) for name, found in sorted(packages.items())}


def _spdx(found: metadata.Distribution, rules: LicenceRules) -> str:
    return " AND ".join(rules.names.get(name, name) for name in stated_licences(found))


def licence_faults(licences: dict[str, str], rules: LicenceRules) -> Iterator[str]:
    """Return what may not be released like this, in words for whoever has to decide about it."""
    for name, licence in licences.items():
        exception = rules.exceptions.get(name)
        if exception is not None and exception.licence == licence:
            continue
        if not licence:
            yield f"{name} states no licence; read its licence file, and name it in licences.yaml under packages"
            continue
        try:
            parsed = SPDX.parse(licence, validate=True, strict=True)
        except ExpressionError:
            yield f"{name}: {licence!r} is no SPDX expression; name what it means in licences.yaml"
            continue
        if not _is_permitted(parsed, rules.permitted):
            yield f"{name}: {licence} is not permitted; do without, or give a reason in licences.yaml (exceptions)"
    for name in sorted({*rules.packages, *rules.exceptions} - set(licences)):
        yield f"{name} is named in licences.yaml and nothing depends on it"


def _is_permitted(expression: Any, permitted: frozenset[str]) -> bool:
    """Return whether one of the alternatives asks for permitted licences only."""
    if isinstance(expression, SPDX.AND):
        return all(_is_permitted(part, permitted) for part in expression.args)
    if isinstance(expression, SPDX.OR):
        return any(_is_permitted(part, permitted) for part in expression.args)
    return str(expression) in permitted
