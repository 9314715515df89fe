"""docs/reference/settings.md names every setting of every process, and no other, with the default and bounds it has."""

import re
from collections.abc import Iterator

import pytest
from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import AliasChoices, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings
from tests.support.places import ROOT

from towpath.client.settings import ClientSettings
from towpath.tools.egress_settings import HttpEgressSettings
from towpath_agent.settings import AgentSettings
from towpath_decider.settings import DeciderSettings
from towpath_fabric.settings import Settings
from towpath_gateway.settings import GatewaySettings
from towpath_log_writer.settings import LogWriterSettings
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.settings import TasSettings
from towpath_watchdog.settings import WatchdogSettings
from towpath_worker.settings import WorkerSettings

PAGE = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
SECTIONS: dict[str, type[BaseSettings]] = {
    "Every process": Settings,
    "Gateway": GatewaySettings,
    "Orchestrator": OrchestratorSettings,
    "Decider": DeciderSettings,
    "Tool access": TasSettings,
    "Worker": WorkerSettings,
    "What the tool http.request reaches": HttpEgressSettings,
    "Agents in user code": AgentSettings,
    "Log-writer": LogWriterSettings,
    "Watchdog": WatchdogSettings,
    "Clients": ClientSettings,
}
NO_VARIABLE = {"otel"}
"""Read from the variables of OpenTelemetry (docs/tracing.md)."""

BOUNDS = {Ge: ("at least {}", "ge"), Gt: ("above {}", "gt"), Le: ("at most {}", "le")}
LENGTHS = {MinLen: ("{} characters or more", "min_length"), MaxLen: ("{} characters at most", "max_length")}


def rows(section: str) -> dict[str, tuple[str, str]]:
    """Return the default and the bounds of each variable of a section, as they are written."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = (cells[1].strip("`"), cells[2])
    return found


def own_fields(section: str) -> Iterator[tuple[str, FieldInfo]]:
    """Return the fields that a section has to name, by variables: its own, and those with another default."""
    settings = SECTIONS[section]
    for name, field in settings.model_fields.items():
        shared = Settings.model_fields.get(name)
        if name not in NO_VARIABLE and (settings is Settings or shared is None or field.default != shared.default):
            yield variable(name, field, str(settings.model_config["env_prefix"])), field


def variable(name: str, field: FieldInfo, prefix: str) -> str:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else prefix + name.upper()


def default(field: FieldInfo) -> str:
    return "" if field.default_factory is not None else told(field.default)


def told(value: object) -> str:
    if value is None or value == "":
        return ""
    return str(value).lower().removesuffix(".0") if isinstance(value, bool | int | float) else str(value)


def bounds(field: FieldInfo) -> str:
    told = []
    for limit in field.metadata:
        for kind, (words, name) in (BOUNDS | LENGTHS).items():
            if isinstance(limit, kind):
                told.append(words.format(f"{getattr(limit, name):g}" if kind is Gt else getattr(limit, name)))
    return ", ".join(told)


TOLD = [(section, name) for section in SECTIONS for name in rows(section)]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_every_setting_and_no_other(section: str) -> None:
    assert list(rows(section)) == [name for name, _ in own_fields(section)]


@pytest.mark.parametrize(("section", "name"), TOLD)
def test_a_setting_has_the_default_and_the_bounds_of_its_row(section: str, name: str) -> None:
    field = dict(own_fields(section))[name]
    assert rows(section)[name] == (default(field), bounds(field))


@pytest.mark.parametrize("section", SECTIONS)
def test_a_process_without_variables_has_the_defaults_of_the_page(
    section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, _ in own_fields(section):
        monkeypatch.delenv(name, raising=False)
    settings = SECTIONS[section](_env_file=None)  # type: ignore[call-arg]
    prefix = str(settings.model_config["env_prefix"])
    names = {variable(name, field, prefix): name for name, field in SECTIONS[section].model_fields.items()}
    for name, field in own_fields(section):
        if field.default_factory is None:
            assert told(getattr(settings, names[name])) == rows(section)[name][0]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_number_beyond_its_bounds_is_refused_and_the_bound_itself_is_not(
    section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, field in own_fields(section):
        for word, bound in re.findall(r"(at least|at most|above) (-?[\d.]+)", rows(section)[name][1]):
            beyond = float(bound) if word == "above" else float(bound) + (1 if word == "at most" else -1)
            within = float(bound) + 0.5 if word == "above" and field.annotation is float else float(bound)
            within += 1 if word == "above" and field.annotation is int else 0
            with monkeypatch.context() as given:
                given.setenv(name, f"{beyond:.0f}")
                with pytest.raises(
                    ValidationError,
                    match=name.lower().removeprefix(str(SECTIONS[section].model_config["env_prefix"]).lower()),
                ):
                    SECTIONS[section]()
                given.setenv(name, f"{within:.0f}" if field.annotation is int else str(within))
                SECTIONS[section]()
