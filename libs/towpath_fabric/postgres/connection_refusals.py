"""Which errors of a first connection stay the same however often it is tried, and what to do about each.

Others may be over by themselves: a server that starts, a name that does not resolve yet, too many connections.
PgBouncer uses the class of connection errors for most of what it says, and so is told by its words.
"""

import ssl
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from towpath_contracts.problems.registry import Problem, problem

_DENIED = ("authentication failed", "auth failed", "no such user", "not allowed", "permission denied")
_MISSING = ("no such database",)
_NO_TLS = "rejected SSL upgrade"
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SETTING = ("unsupported startup parameter", "unrecognized configuration parameter")


def refusal(error: BaseException) -> Problem | None:
    """Return the problem of an error that no waiting mends; None for any other one."""
    if isinstance(error, ssl.SSLCertVerificationError):  # which is a ValueError
        return problem("database_untrusted", f"the certificate of Postgres: {error.verify_message}")
    if isinstance(error, ValueError):  # its words may be a part of the password
        return problem("database_address_invalid", "the address of the database can't be read")
    if isinstance(error, ConnectionError) and _NO_TLS in str(error):
        return problem("database_untrusted", str(error))
    if isinstance(error, asyncpg.PostgresError):
        said = f"Postgres: {str(error).splitlines()[0]}"
        if (code := _code(error, str(error).lower())) is not None:
            return problem(code, said)
    return None


def missing_file(dsn: str) -> Problem | None:
    """Return the problem of an address that names a file for TLS which is not there; None for any other address."""
    try:
        options = parse_qs(urlsplit(dsn).query)
    except ValueError:  # told when it is connected to
        return None
    for name in _FILES:
        for file in options.get(name, ()):
            if not Path(file).is_file():
                return problem("database_address_invalid", f"{name} of the database's address: there is no file {file}")
    return None


def missing_right(error: BaseException) -> Problem | None:
    """Return the problem of a statement that this login may not run; None for any other error."""
    if not isinstance(error, asyncpg.InsufficientPrivilegeError):
        return None
    remedy = "Name the role of this service in TOWPATH_DATABASE_URL, or grant it what is named as the database's owner."
    return problem("database_denied", f"Postgres: {str(error).splitlines()[0]}", remedy=remedy)


def _code(error: asyncpg.PostgresError, said: str) -> str | None:
    if isinstance(error, asyncpg.ProtocolViolationError):
        for code, texts in (
            ("database_setting_refused", _SETTING),
            ("database_missing", _MISSING),
            ("database_denied", _DENIED),
        ):
            if any(text in said for text in texts):
                return code
        return None
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InsufficientPrivilegeError):
        return "database_denied"
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return "database_missing"
    refused = asyncpg.UndefinedObjectError | asyncpg.CantChangeRuntimeParamError | asyncpg.InvalidParameterValueError
    return "database_setting_refused" if isinstance(error, refused) else None
