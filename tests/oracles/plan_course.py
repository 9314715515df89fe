"""The course of a plan or workflow, by the words of the design alone (see `plan_rules`)."""

import json
from typing import Any

from tests.oracles.plan_rules import (
    STEP_BYTES,
    STEP_CHARS,
    WIDTH,
    Child,
    Happened,
    NowhereError,
    Question,
    Told,
    TooMuchError,
    calls_of,
    kept,
    spoken,
)


class Course:
    """Follows one run; `trace` is what must happen in it, `times` how long its agents may take at most."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.trace: list[Happened] = []
        self.times: dict[str, int] = {}
        self.output: dict[str, Any] = {"success": False, "steps": [], "bindings": {}, "errors": []}
        self.answer: Any = None
        self.over = False
        self.children: list[Child] = []
        self._place = -1
        self._began = 0
        self._carried = told.message
        self._decided = False
        self._cancelled = False

    def begin(self, at: int) -> None:
        """Begin with the first step; *at* is in milliseconds of the run."""
        self.trace += [("move", "start_plan", ""), ("move", "planner_finished", "")]
        self._next(at)

    def ended(self, name: str, status: str, final: Any, code: str, at: int) -> None:
        """Take the end of a child."""
        child = next((child for child in self.children if child.name == name and not child.over), None)
        if child is None:
            self.trace.append(("end", name, "though it does not run"))
            return
        child.status, child.final, child.code = status, final, code
        self.trace.append(("end", name, status))
        if self._cancelled:
            if all(child.over for child in self.children):
                self.cut("cancelled", "cancelled", "cancelled")
            return
        if not self._decided:
            self._policy(at)
        if all(child.over for child in self.children):
            self._close(at)

    def cancel(self) -> None:
        """Take a cancel: nothing is begun any more, and it is complete once all have ended."""
        self._cancelled = True
        self._ask()

    def cut(self, trigger: str, status: str, code: str) -> None:
        """End the run from outside: its time is over, or it is cancelled and quiet."""
        step = self._step
        self._tell(cut=code)
        self.trace.append(("move", trigger, step["id"]))
        if not self.output["errors"]:
            self.output["errors"].append(("", code))
        self._finish(status, code)
        self._ask()

    @property
    def _step(self) -> dict[str, Any]:
        return self.told.steps[self._place]

    def _agents(self) -> list[dict[str, Any]]:
        return [call for _path, call in calls_of(self._step)]

    def _merge(self) -> str:
        block = self._step.get("parallel")
        return "" if block is None else str(block.get("merge_strategy", "collect"))

    def _next(self, at: int) -> None:
        self._place += 1
        self._began, self.children, self._decided = at, [], False
        name = self._step["id"]
        self.trace.append(("move", "next_step" if self._place else "dispatch_step", name))
        values = {"result": self.output["bindings"], "bindings": self.told.bindings}
        try:
            self._asked = [Question(values).asked(call, self._carried) for call in self._agents()]
        except NowhereError:
            self._refuse("reference_undefined")
            return
        except TooMuchError:
            self._refuse("input_too_large")
            return
        asked = json.dumps(self._asked, ensure_ascii=False).encode()
        if sum(map(len, self._asked)) > STEP_CHARS or len(asked) > STEP_BYTES:
            self._refuse("input_too_large")
            return
        self._start(at)
        self.trace.append(("move", "step_dispatched", name))

    def _refuse(self, code: str) -> None:
        """A step of which nothing was started has failed."""
        step = self._step
        self._report({**self._unbegun(step), "status": "failed", "error": code})
        self.output["errors"].append((step["id"], code))
        self.trace.append(("move", "step_failed", step["id"]))
        self._finish("failed", "plan_failed")

    def _start(self, at: int) -> None:
        agents, running = self._agents(), sum(not child.over for child in self.children)
        block = self._step.get("parallel") or {}
        width = min(self.told.most, WIDTH, block.get("max_concurrency") or WIDTH)
        while running < width and len(self.children) < len(agents):
            place = len(self.children)
            name = self._step["id"] if "parallel" not in self._step else f"{self._step['id']}[{place}]"
            call = agents[place]
            self.children.append(Child(name, call["agent_key"]))
            self.trace.append(("start", name, call["agent_key"], self._asked[place]))
            self.times[name] = self._time(call, at)
            running += 1

    def _time(self, call: dict[str, Any], at: int) -> int:
        left = [self.told.run_ms - at]
        if self._step.get("timeout_ms"):
            left.append(self._step["timeout_ms"] - (at - self._began))
        if call.get("timeout_ms"):
            left.append(call["timeout_ms"])
        return max(1, min(left))

    def _policy(self, at: int) -> None:
        """After an end: stop the others where it decides the step, or let the next one begin."""
        deciding = {"fail_fast": "failed", "first_success": "success"}.get(self._merge())
        self._decided = any(child.over == deciding for child in self.children)
        if not self._decided:
            self._start(at)
            return
        running = [child for child in self.children if not child.over]
        for child in running:
            child.stopped = True
            self.trace.append(("stop", child.name))
        self._ask()

    def _ask(self) -> None:
        """Every agent that runs is told to stop; how often it is told again is not looked at."""
        asked = [("ask", child.name) for child in self.children if not child.over]
        self.trace += [one for one in asked if one not in self.trace]

    def _close(self, at: int) -> None:
        """All that were started have ended."""
        status = self._tell()
        step = self._step
        if status != "success":
            self.trace.append(("move", "step_failed", step["id"]))
            self._finish("failed", "plan_failed")
            return
        self.trace.append(("move", "parallel_complete" if "parallel" in step else "step_succeeded", step["id"]))
        if self.told.chain:
            ended = sorted(self.children, key=lambda child: child.agent)
            self._carried = "\n\n".join(spoken(child.final) for child in ended)
        if self._place + 1 < len(self.told.steps):
            self._next(at)
            return
        self.trace.append(("move", "all_done", ""))
        self.output["success"], self.output["errors"] = True, []
        alone = self.children[0].final if self.told.chain and "parallel" not in step else None
        self.answer = {"message": self._carried} if alone is None else alone
        self._finish("completed", "plan_completed")

    def _tell(self, cut: str = "") -> str:
        """Report on the step; returns its status."""
        step, results = self._step, self.output["bindings"]
        reports, unnamed = [], {}
        for place, call in enumerate(self._agents()):
            child = self.children[place] if place < len(self.children) else None
            report = self._of(child, place, call, cut)
            reports.append(report)
            if report["status"] == "success" and child is not None:
                key = call.get("result_key")
                value = report["outputs"] = kept(child.final)
                (results if key else unnamed)[key or str(place)] = value
            if report["error"] is not None:
                self.output["errors"].append((report["id"], report["error"]))
        if unnamed:
            results[step["id"]] = unnamed if "parallel" in step else unnamed["0"]
        said = [report["status"] for report in reports]
        bad = said.count("failed") + (said.count("skipped") if cut else 0)
        status = "failed" if "success" not in said else "partial" if bad else "success"
        if status == "partial" and self._merge() == "first_success":
            status = "success"
        if "parallel" in step:
            first = next((report["error"] for report in reports if report["error"] is not None), None)
            whole = {"id": step["id"], "type": "parallel", "agent": "", "outputs": None, "children": reports}
            self._report({**whole, "status": status, "error": None if status == "success" else first})
        else:
            self._report(reports[0])
        return status

    def _of(self, child: Child | None, place: int, call: dict[str, Any], cut: str) -> dict[str, Any]:
        step = self._step
        report = {
            "id": f"{step['id']}[{place}]" if "parallel" in step else step["id"],
            "type": "agent",
            "agent": call["agent_key"],
            "status": "skipped",
            "outputs": None,
            "error": None,
            "children": [],
        }
        if child is None:
            return report
        report["status"] = child.over or "failed"
        if report["status"] == "failed":
            report["error"] = (child.code or child.status) if child.over else cut
        return report

    @staticmethod
    def _unbegun(step: dict[str, Any]) -> dict[str, Any]:
        agent = "" if "parallel" in step else step["agent"]["agent_key"]
        kind = "parallel" if "parallel" in step else "agent"
        empty = {"outputs": None, "error": None, "children": []}
        return {"id": step["id"], "type": kind, "agent": agent, "status": "skipped", **empty}

    def _report(self, report: dict[str, Any]) -> None:
        self.output["steps"].append(report)
        self.trace.append(("step", report["id"], report["status"]))

    def _finish(self, status: str, reason: str) -> None:
        for step in self.told.steps[self._place + 1 :]:
            if status != "completed":
                self._report(self._unbegun(step))
        self.trace.append(("finished", status, reason))
        self.over = True
