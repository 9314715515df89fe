"""Authentication between a process and the broker: passwords, nkeys, credentials, TLS.

Where TLS is configured, the connection starts with the TLS handshake. By default nats-py sends plain text until the
server asks for TLS, so an attacker in between could drop that request and receive the password. The server therefore
needs `tls { handshake_first: true }`.
"""

import ssl
from pathlib import Path
from typing import Any

import nkeys
from faststream.nats.security import NatsCredentials, NatsNKey, NatsSecurity, NatsUserPassword

from towpath_fabric.settings import BrokerSettings


class LoginFileError(Exception):
    """A login file can't be used; the message names the file and never shows its content."""


def tls_context(settings: BrokerSettings) -> ssl.SSLContext | None:
    """Return the TLS context, None where TLS isn't configured; raises LoginFileError.

    The server's certificate has to be signed by `nats_tls_ca` (else by an authority of the system), for the host of the
    address.
    """
    files = (settings.nats_tls_ca, settings.nats_tls_cert)
    if all(file is None for file in files) and not any(one.startswith("tls://") for one in settings.nats_servers):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.nats_tls_ca)
        if settings.nats_tls_cert is not None:
            context.load_cert_chain(settings.nats_tls_cert, settings.nats_tls_key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        named = ", ".join(str(file) for file in files if file is not None)
        raise LoginFileError(f"the TLS files {named} can't be used: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def security(settings: BrokerSettings) -> NatsSecurity | None:
    """Return what FastStream's broker needs, None where there is neither login nor TLS; raises LoginFileError."""
    context = tls_context(settings)
    tls: dict[str, Any] = {"ssl_context": context, "tls_handshake_first": context is not None}
    if settings.nats_user is not None and settings.nats_password is not None:
        return NatsUserPassword(settings.nats_user, settings.nats_password.get_secret_value(), **tls)
    if settings.nats_nkey_file is not None:
        _check_seed(settings.nats_nkey_file)
        return NatsNKey.from_file(settings.nats_nkey_file, **tls)
    if settings.nats_creds_file is not None:
        _check_readable(settings.nats_creds_file)
        return NatsCredentials.from_file(settings.nats_creds_file, **tls)
    return None if context is None else NatsSecurity(**tls)


def connect_options(settings: BrokerSettings) -> dict[str, Any]:
    """Return the same as options of `nats.connect`, for clients without FastStream; raises LoginFileError."""
    options: dict[str, Any] = {}
    context = tls_context(settings)
    if context is not None:
        options |= {"tls": context, "tls_handshake_first": True}
    if settings.nats_user is not None and settings.nats_password is not None:
        options |= {"user": settings.nats_user, "password": settings.nats_password.get_secret_value()}
    elif settings.nats_nkey_file is not None:
        _check_seed(settings.nats_nkey_file)
        options["nkeys_seed"] = str(settings.nats_nkey_file)
    elif settings.nats_creds_file is not None:
        _check_readable(settings.nats_creds_file)
        options["user_credentials"] = str(settings.nats_creds_file)
    return options


def _check_readable(file: Path) -> None:
    """Raise at the start what a client would take for a broker that is not there, and try again for ever."""
    try:
        file.read_bytes()
    except OSError as error:
        raise LoginFileError(f"{file} can't be read: {error.strerror}") from error


def _check_seed(file: Path) -> None:
    """Raise at the start what would otherwise be raised at every attempt to connect."""
    try:
        nkeys.from_seed(bytearray(file.read_bytes().strip())).wipe()
    except (OSError, ValueError, nkeys.NkeysError) as error:
        raise LoginFileError(f"{file} holds no seed of an nkey: {type(error).__name__}") from error
