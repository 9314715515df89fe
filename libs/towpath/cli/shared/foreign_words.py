"""Commands and options that people know from elsewhere, and the command that does it here.

Letter by letter nothing here is near them, so a suggestion of the nearest name would send people the wrong way.
"""

COMMANDS: dict[tuple[str, ...], str] = {
    ("approvals",): "what waits for a person is listed by towpath gates list",
    ("approve",): "a call is approved by towpath gates approve ID",
    ("deny",): "a call is refused by towpath gates deny ID --reason WHY",
    ("audit", "list"): "entries are listed by towpath audit search",
    ("db", "backup"): "the database is copied by towpath backup",
    ("networks", "delete"): "runs keep their version of a network, so none is deleted. New calls of its runs are held "
    "back by towpath switches pause network NAME --reason WHY",
    ("tools", "disable"): "calls of a tool are held back by towpath switches pause tool NAME --reason WHY",
    ("tools", "enable"): "calls of a tool go on by towpath switches resume tool NAME",
}
"""What is written for a command, by its words."""

OPTIONS: dict[tuple[str, ...], str] = {
    ("run", "--budget"): "what a run may spend is --usd 0.5",
    ("run", "--network"): "the network is the first word, as in towpath run support 'Refund order 8812'",
    ("worker", "--pool"): "a toolset says which workers serve a tool, and stands above it: @tool(toolset=…)",
}
"""What is written for an option, by the words of its command."""
