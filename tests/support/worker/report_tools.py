"""A report of 300 KB with one sentence that matters, and an agent that looks for it with what the platform offers."""

from towpath import AgentRequest, BaseAgent, tool
from towpath.agents.operations import AnyMove, execute_tool, respond

NEEDLE = "The word is Halyard, says ann@acme.example."
LINE = "Nothing of interest — not in this line either.\n"
REPORT = LINE * 3_000 + NEEDLE + "\n" + LINE * 3_000
"""About 300 KB; the dash has three bytes, so bytes and characters differ."""


@tool(name="report.read", toolset="report", effect_class="pure")
def read() -> str:
    """Read the report."""
    return REPORT


@tool(name="report.part", toolset="report", effect_class="pure")
def part(number: int) -> str:
    """Read 20 KB of it."""
    return str(number) * 20_000


@tool(name="report.send", toolset="report", effect_class="idempotent", sinks=("to",))
def send(to: str) -> dict[str, str]:
    """Send the report to somebody."""
    return {"sent": to}


class Finder(BaseAgent):
    """Reads the report, searches it, reads what is around the match, and answers with it.

    A message that is an id has it read the output of that call instead.
    """

    name = "finder"

    async def plan(self, request: AgentRequest) -> AnyMove:
        offered = {tool.name for tool in request.tools}
        if request.decision_request.context.run_kind == "background" and not request.results("plan_setup"):
            return execute_tool("plan_setup", objective="Find the word.", steps=[{"title": "look"}])
        if len(request.message) == 36:
            return self._foreign(request)
        found = request.results("output_read")
        if found:
            return respond({"found": found[-1]["text"], "tool": found[-1]["tool"], "bytes": found[-1]["bytes"]})
        places = request.results("output_search")
        shown = next((one for one in request.outputs if one.tool == "report.read"), None)
        if shown is None:
            return execute_tool("report.read")
        if shown.cut is None or not {"output_read", "output_search"} <= offered:
            return respond({"wrong": "the report is whole, or nothing reads it"})
        if not places:
            return execute_tool(
                "output_search", execution_id=str(shown.execution_id), text="the WORD", ignore_case=True
            )
        (match,) = places[-1]["matches"]
        size = len(NEEDLE.encode())
        return execute_tool("output_read", execution_id=str(shown.execution_id), offset=match["offset"], limit=size)

    def _foreign(self, request: AgentRequest) -> AnyMove:
        asked = [one for one in request.outputs if one.tool == "output_read"]
        if asked:
            return respond({"status": asked[0].status, "said": asked[0].text})
        return execute_tool("output_read", execution_id=request.message)
