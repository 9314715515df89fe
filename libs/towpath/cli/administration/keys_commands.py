"""`towpath keys`: the API keys of a project."""

import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.confirmation import Flag, require_yes
from towpath.cli.shared.options import (
    CONNECTION_OPTIONS,
    OUTPUT_OPTIONS,
    ConnectionOptions,
    OutputOptions,
    examples,
)
from towpath.cli.shared.output import Column
from towpath.tools.declaration import seconds
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="keys",
    help="Create, list and revoke API keys; make the key that signs tickets.",
    help_epilogue=examples("towpath keys create --caller mia --role approver --expires 720h", "towpath keys list"),
)

Many = Annotated[tuple[str, ...], Parameter(negative="")]

_COLUMNS = (
    Column("key", "prefix"),
    Column("caller", "caller"),
    Column("roles", lambda row: " ".join(row["roles"])),
    Column("scopes", lambda row: " ".join(row["scopes"])),
    Column("expires", "expires_at"),
    Column("revoked", "revoked_at"),
    Column("note", "note"),
)


@app.command(
    help_epilogue=examples(
        "towpath keys create --caller shop --scope runs:write --scope runs:read",
        "towpath keys create --caller mia --role approver --expires 720h",
    )
)
async def create(
    *,
    caller: str,
    scope: Many = (),
    role: Many = (),
    expires: str | None = None,
    note: str = "",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Make a key; it is shown once.

    Args:
        caller: Who it is for; it stands in the audit.
        scope: What it may do: runs:read, runs:write, gates:resolve, …; may be given more than once. Without any it may
            do what its roles may.
        role: viewer, operator, approver, policy_admin, auditor, …; may be given more than once.
        expires: When it ends, such as 720h; never, where it isn't given.
        note: For the list.
    """
    body: dict[str, Any] = {"caller": caller, "scopes": list(scope), "roles": list(role), "note": note}
    if expires is not None:
        body["expires_in_s"] = _lifetime_s(expires)
    async with common.connect() as client:
        made = await client.request("POST", "/v1/keys", body=body)
    out = common.out()
    if out.for_people:
        out.write(made["key"])
        out.write("Keep it now: it isn't shown again.", "yellow")
        for warning in made["warnings"]:
            out.write(f"Warning: {warning}.", "yellow")
    else:
        out.data(made)


@app.command(name="list", help_epilogue=examples("towpath keys list", "towpath keys list -o json"))
async def list_keys(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the keys, without their secrets."""
    keys: list[dict[str, Any]] = []
    after = ""
    async with common.connect() as client:
        while True:
            found = await client.request("GET", f"/v1/keys{after}")
            keys += found["keys"]
            if found.get("next_after") is None:
                break
            after = f"?after={found['next_after']}"
    common.out().rows("keys", keys, _COLUMNS, empty="There are no keys. Create one: towpath keys create --caller NAME.")


@app.command(help_epilogue=examples("towpath keys revoke twp_4f2a", "towpath keys revoke twp_4f2a --yes -o json"))
async def revoke(key: str, /, *, yes: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """End a key at once; it stays in the list.

    Args:
        key: What `keys list` shows in its first column.
        yes: Don't ask; a script has to say it.
    """
    require_yes(f"Whoever uses {key} is refused from then on, for good. Revoke it?", yes=yes)
    async with common.connect() as client:
        await client.request("DELETE", f"/v1/keys/{key}")
    out = common.out()
    if out.for_people:
        out.write(f"{key} is revoked")
    else:
        out.data({"prefix": key, "revoked": True})


@app.command(
    help_epilogue=examples("towpath keys ticket /var/lib/towpath/ticket.key", "towpath keys ticket ticket.key -o json")
)
def ticket(file: Path, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Make the key that the tool-access service signs tickets with; one that is there already is kept.

    Args:
        file: What TOWPATH_TICKET_KEY_FILE of every replica will name; only its owner may read it.
    """
    made = _made(file)
    printed.out().record({"file": str(file), "made": made}, (Column("file", "file"), Column("made", "made")))


@app.command(
    help_epilogue=examples("towpath keys seal /var/lib/towpath/seal.key", "towpath keys seal seal.key -o json")
)
def seal(file: Path, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Make the key that signs the audit's checkpoints; one that is there already is kept.

    Its public half is shown by `towpath audit checkpoint`.

    Args:
        file: What TOWPATH_SEAL_KEY_FILE of every replica will name; only its owner may read it.
    """
    made = _made(file)
    printed.out().record({"file": str(file), "made": made}, (Column("file", "file"), Column("made", "made")))


@app.command(
    help_epilogue=examples(
        "towpath keys nkey deploy/secrets/tas.nkey", "towpath keys nkey deploy/secrets/tas.nkey -o json"
    )
)
def nkey(file: Path, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Make an nkey to log in to the broker with, and show its public half; one that is there already is kept.

    The public half belongs into `nkeys` of deploy/credentials.yaml, beside the user's name.

    Args:
        file: What TOWPATH_NATS_NKEY_FILE of the process will name; only its owner may read it.
    """
    import nkeys

    made = _made(file, lambda: bytes(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)))
    try:
        pair = nkeys.from_seed(bytearray(file.read_bytes().strip()))
    except (OSError, ValueError, nkeys.NkeysError) as error:
        raise ProblemError(problem("request_invalid", f"{file} holds no seed of an nkey")) from error
    row = {"file": str(file), "made": made, "public": pair.public_key.decode()}
    pair.wipe()
    printed.out().record(row, tuple(Column(name, name) for name in row))


def _private_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw())


def _made(file: Path, key: Callable[[], bytes] = _private_key) -> bool:
    """Make a key in *file*; False where there is one already."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(key() + b"\n")
    except FileExistsError:
        return False
    except OSError as error:
        raise ProblemError(problem("file_missing", f"{file} can't be written: {error.strerror}")) from error
    return True


def _lifetime_s(expires: str) -> int:
    try:
        return int(seconds(expires))
    except ValueError as error:
        raise ProblemError(problem("request_invalid", f"--expires: {error}")) from error
