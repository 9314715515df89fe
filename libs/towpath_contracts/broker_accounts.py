"""The broker's accounts, made from the authority table: what each exports, imports, and who is in it.

Nothing crosses between accounts but what a user of the importing account may publish or receive. Streams are in CORE
alone. SYS, which could look into every account, has no user.
"""

from collections.abc import Callable, Iterable, Mapping

from towpath_contracts.authority import CORE, EDGE, RESPONSE_EXPIRES, NatsUserRights, broker_permissions
from towpath_contracts.base import JsonObject
from towpath_contracts.subjects import AGENTS_BEATS_ALL

SYSTEM = "SYS"

_PULL = "$JS.API.CONSUMER.MSG.NEXT."
_OWN = ("_INBOX", AGENTS_BEATS_ALL)
"""What is heard in the own account alone."""
_NONE: Mapping[str, str] = {}


def broker_accounts(
    users: Mapping[str, NatsUserRights], password: Callable[[str], str], nkeys: Mapping[str, str] = _NONE
) -> JsonObject:
    """Return nats-server's `accounts` for *users*, each with its key of *nkeys*, else the *password* of its name."""
    found: JsonObject = {SYSTEM: {"users": []}, CORE: {"jetstream": "enabled", "users": []}}
    for name, rights in users.items():
        account = found.setdefault(rights.account, {"users": []})
        who = {"nkey": nkeys[name]} if name in nkeys else {"user": name, "password": password(name)}
        account["users"].append({**who, "permissions": broker_permissions(rights)})
        if rights.account != CORE:
            found_imports = account.setdefault("imports", [])
            found_imports += [one for one in _imports(rights) if one not in found_imports]
    outside = [rights for rights in users.values() if rights.account != CORE]
    asked = sorted({subject for rights in outside for subject in rights.publish})
    received = sorted({subject for rights in outside for subject in _received_subjects(rights)})
    if outside:
        found[CORE]["exports"] = [*map(_service, asked), *({"stream": subject} for subject in received)]
    if EDGE in found:
        _add_agents(found, users.values())
    return found


def _add_agents(found: JsonObject, users: Iterable[NatsUserRights]) -> None:
    """Let clients prompt the gateway: it hears each in that one's own name, and answers with many messages."""
    prompted = {heard for rights in users for _, heard in rights.prompts}
    for rights in users:
        imports = found[rights.account].setdefault("imports", []) if rights.prompts else []
        for local, heard in rights.prompts:
            renamed = {} if local == heard else {"to": local}
            imports.append({"service": {"account": EDGE, "subject": heard}, **renamed})
    if prompted:
        found[EDGE]["exports"] = [
            {"service": subject, "response_type": "stream", "response_threshold": RESPONSE_EXPIRES}
            for subject in sorted(prompted)
        ]


def _imports(rights: NatsUserRights) -> list[JsonObject]:
    asked = [{"service": {"account": CORE, "subject": subject}} for subject in rights.publish]
    return [*asked, *({"stream": {"account": CORE, "subject": subject}} for subject in _received_subjects(rights))]


def _received_subjects(rights: NatsUserRights) -> tuple[str, ...]:
    return tuple(subject for subject in rights.subscribe if not subject.startswith(_OWN))


def _service(subject: str) -> JsonObject:
    if subject.startswith(_PULL):  # one question, many messages
        return {"service": subject, "response_type": "stream"}
    return {"service": subject, "response_threshold": RESPONSE_EXPIRES}
