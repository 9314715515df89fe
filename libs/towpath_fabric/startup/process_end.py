"""How a process ends that can't go on: one line with a problem, and an exit code that says whether to start it again.

0    it was asked to stop
1    an error that another start may mend; its log has it
2    a setting, an address, or the database is wrong: someone has to correct it
4    a login or a right is missing: someone has to grant it
"""

from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from towpath_contracts.problems.registry import Problem, problem
from towpath_fabric.nats.login import LoginFileError
from towpath_fabric.settings import Settings, describe_wrong_settings
from towpath_fabric.telemetry.logs import Logger, configure_logging

FAILED, WRONG_SETTINGS, DENIED = 1, 2, 4

_CODES = {
    "settings_invalid": WRONG_SETTINGS,
    "database_address_invalid": WRONG_SETTINGS,
    "database_missing": WRONG_SETTINGS,
    "database_setting_refused": WRONG_SETTINGS,
    "database_untrusted": WRONG_SETTINGS,
    "broker_untrusted": WRONG_SETTINGS,
    "database_not_migrated": WRONG_SETTINGS,
    "migration_changed": WRONG_SETTINGS,
    "version_too_old": WRONG_SETTINGS,
    "broker_denied": DENIED,
    "database_denied": DENIED,
}

S = TypeVar("S", bound=Settings)


def exit_code(found: Problem) -> int:
    """Return the exit code of a process that ended with *found*."""
    return _CODES.get(found.code, FAILED)


def run_process(role: str, load: Callable[[], S], serve: Callable[[S], int], *, needs_database: bool = False) -> int:
    """Read the settings with *load* and *serve* with them; returns the exit code, and logs what can't be used."""
    try:
        settings = load()
    except ValidationError as error:
        return _end(role, Settings.model_construct(), problem("settings_invalid", describe_wrong_settings(error)))
    if needs_database and settings.database_url is None:
        return _end(role, settings, problem("settings_invalid", "TOWPATH_DATABASE_URL is not set"))
    try:
        return serve(settings)
    except LoginFileError as error:
        return _end(role, settings, problem("settings_invalid", str(error)))


def _end(role: str, settings: Settings, found: Problem) -> int:
    log_end(configure_logging(role, settings), found)
    return exit_code(found)


def log_end(log: Logger, found: Problem, **about: str) -> None:
    """Say in one line why the process ends."""
    log.error("the process ends", code=found.code, detail=found.detail, remedy=found.remedy, **about)
