"""`towpath a2a`: what agents of others read before they call a network."""

from cyclopts import App

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples

app = App(
    name="a2a",
    help="Show what agents of others read of a network.",
    help_epilogue=examples("towpath a2a card", "towpath a2a card support"),
)

CARD = "/.well-known/agent-card.json"


@app.command(help_epilogue=examples("towpath a2a card", "towpath a2a card support"))
async def card(network: str | None = None, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Print the agent card of a network, or of the gateway, which says nothing of any network.

    Args:
        network: The name of a published network.
    """
    path = CARD if network is None else f"/v1/networks/{network}/a2a{CARD}"
    async with common.connect() as client:
        answer = await client.request("GET", path)
    common.out().data(answer)
