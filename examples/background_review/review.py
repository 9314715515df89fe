"""A background code review: the change is mounted, the review comes back as a CodeReviewSummary.

    towpath up --policy examples/background_review/policy.yaml --networks examples/background_review
    python examples/background_review/review.py --script examples/background_review/script.json

Without --script the network's own model reviews; give it one that can, such as `--model gemini:gemini-2.5-flash`.
"""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from towpath import Client, HostMount, Objective

HERE = Path(__file__).parent


class Finding(BaseModel):
    """One thing that is wrong, and where."""

    path: str
    line: int = Field(ge=1)
    severity: Literal["minor", "major", "blocker"]
    text: str


class CodeReviewSummary(BaseModel):
    """What a review comes to."""

    verdict: Literal["approve", "request_changes", "reject"]
    findings: list[Finding]
    next_steps: list[str]


OBJECTIVE = Objective(
    "Review the change in change/ for regressions and security faults.",
    deliverable=CodeReviewSummary,
    context_sections={"Checklist": "Cookies: HttpOnly, Secure, SameSite, short life. Tests cover what changed."},
    mounts=[HostMount(HERE / "change", "change", exclude=("**/__pycache__/**",))],
)


async def main() -> None:
    """Review, and print what was found."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--script", type=Path, help="play these decisions instead of asking a model")
    asked.add_argument("--model", help="ask this model, whatever the network says")
    given = asked.parse_args()
    options = {"model": given.model, "script": None if given.script is None else json.loads(given.script.read_text())}
    async with Client() as client:
        result = await client.pursue("review", OBJECTIVE, **{k: v for k, v in options.items() if v is not None})
    print(f"{result.status} after {result.iterations} iterations, {result.failures} failed: {result.final_summary}")  # noqa: T201
    if result.deliverable is not None:
        print(result.deliverable.model_dump_json(indent=2))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
