"""What a first connection meets is a problem where no waiting mends it; what may be over by itself is none."""

import asyncpg
import pytest

from towpath_fabric.postgres.connection_refusals import missing_right, refusal
from towpath_fabric.postgres.pool import DATABASE_STARTING


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (asyncpg.InvalidPasswordError('password authentication failed for user "towpath_tas"'), "database_denied"),
        (asyncpg.InvalidAuthorizationSpecificationError("no pg_hba.conf entry for host"), "database_denied"),
        (asyncpg.InsufficientPrivilegeError('permission denied for database "towpath"'), "database_denied"),
        (asyncpg.InvalidCatalogNameError('database "x" does not exist'), "database_missing"),
        (asyncpg.UndefinedObjectError('unrecognized configuration parameter "x"'), "database_setting_refused"),
        (asyncpg.InvalidParameterValueError('invalid value for parameter "jit"'), "database_setting_refused"),
        (asyncpg.CantChangeRuntimeParamError('parameter "port" cannot be changed'), "database_setting_refused"),
        # PgBouncer's words
        (asyncpg.ProtocolViolationError("unsupported startup parameter: jit"), "database_setting_refused"),
        (asyncpg.ProtocolViolationError("no such database: x"), "database_missing"),
        (asyncpg.ProtocolViolationError("no such user: x"), "database_denied"),
        (asyncpg.ProtocolViolationError("password authentication failed"), "database_denied"),
        (ValueError("invalid literal for int() with base 10: 'secret'"), "database_address_invalid"),
    ],
)
def test_what_stays_the_same_is_a_problem_and_shows_no_secret(error: Exception, code: str) -> None:
    found = refusal(error)
    assert found is not None and found.code == code
    assert "secret" not in found.detail
    assert found.remedy


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "nobody listens"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.ProtocolViolationError("server login has been failing, try again later"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.TargetServerAttributeNotMatched("None of the hosts match the target attribute requirement"),
    ],
)
def test_what_may_be_over_by_itself_is_waited_for(error: Exception) -> None:
    assert refusal(error) is None
    assert isinstance(error, DATABASE_STARTING)


def test_a_statement_that_this_login_may_not_run_is_a_problem_and_no_other_error_is() -> None:
    found = missing_right(asyncpg.InsufficientPrivilegeError("permission denied for table sweep"))
    assert found is not None and found.code == "database_denied"
    assert found.detail == "Postgres: permission denied for table sweep"
    assert "grant" in found.remedy
    assert missing_right(asyncpg.UndefinedTableError("no table")) is None
