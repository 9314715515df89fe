"""Agent cards: what a network is, where it is called and with which keys.

The card of the gateway says nothing of any project, since everybody may read it; with a key its extended form names the
networks of that key's project.
"""

from collections.abc import Iterable
from importlib.metadata import version

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkVersion
from towpath_gateway.core.a2a_tasks import JSON, TEXT

PROTOCOL = "1.0"
PATH = "/a2a"
CARD = "/.well-known/agent-card.json"
MAX_SKILLS = 500

_DESCRIPTION = (
    "Runs networks of LLM agents. A call names the network in `tenant`; where the project has one network, it may be "
    "left out. The extended card lists the networks."
)


def network_card(network: NetworkVersion, site: str) -> JsonObject:
    """Return the card of a published network."""
    return {
        "name": network.name,
        "description": _described(network),
        "version": str(network.version),
        "skills": [_skill(network)],
        **_shared(f"{site}/v1/networks/{network.name}{PATH}", extended=False),
    }


def gateway_card(site: str, networks: Iterable[NetworkVersion] | None = None) -> JsonObject:
    """Return the card of the gateway; with *networks* its extended form."""
    skill = {"id": "run-network", "name": "Run a network", "description": _DESCRIPTION, "tags": ["networks"]}
    return {
        "name": "Towpath",
        "description": _DESCRIPTION,
        "version": version("towpath"),
        "skills": [skill] if networks is None else [_skill(one) for one in networks][:MAX_SKILLS],
        **_shared(f"{site}{PATH}", extended=True),
    }


def _shared(url: str, *, extended: bool) -> JsonObject:
    return {
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL}],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": extended},
        "securitySchemes": {
            "key": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "twp_<prefix>.<secret>"}}
        },
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "defaultInputModes": [TEXT, JSON],
        "defaultOutputModes": [TEXT, JSON],
    }


def _skill(network: NetworkVersion) -> JsonObject:
    return {"id": network.name, "name": network.name, "description": _described(network), "tags": ["network"]}


def _described(network: NetworkVersion) -> str:
    said = network.snapshot.description if network.snapshot is not None else ""
    return said or f"Runs the network {network.name}."
