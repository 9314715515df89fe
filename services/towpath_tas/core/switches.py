"""Finds the stop switch that holds a call.

A switch names things by globs, as rules do, and holds everything that matches. It never allows anything.
"""

from collections.abc import Iterable, Mapping

from towpath_contracts.switches import ActiveSwitch
from towpath_tas.core.policy.matrix import MAX_CACHED, CallPrincipal, glob_matches


class OpenSwitches:
    """The open stop switches of one project; `find` says which of them holds a call."""

    def __init__(self, switches: Iterable[ActiveSwitch] = ()) -> None:
        """If several hold a call, the first is named."""
        self.open = tuple(switches)
        self._found: dict[tuple[CallPrincipal, str], ActiveSwitch | None] = {}

    def find(self, principal: CallPrincipal, tool: str) -> ActiveSwitch | None:
        """Return the switch that holds calls of *tool* by *principal*, or None."""
        if not self.open:
            return None
        key = (principal, tool)
        if key not in self._found:
            if len(self._found) >= MAX_CACHED:
                self._found.clear()
            self._found[key] = next((switch for switch in self.open if _holds(switch, principal, tool)), None)
        return self._found[key]


def _holds(switch: ActiveSwitch, principal: CallPrincipal, tool: str) -> bool:
    values: Mapping[str, str] = {"network": principal.network, "tool": tool, "caller": principal.caller}
    return switch.kind == "project" or glob_matches(switch.name, values[switch.kind])
