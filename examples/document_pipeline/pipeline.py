"""A document pipeline: a draft, three reviews at the same time, and a last hand that merges them.

    towpath up --worker examples/document_pipeline/tools.py --policy examples/document_pipeline/policy.yaml
    python examples/document_pipeline/pipeline.py --script examples/document_pipeline/script.json

Without --script the network's own model works; give it one that can, such as `--model gemini:gemini-2.5-flash`.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from towpath import Agent, Client, Swarm

BRIEF = "Announce the night tour: through the old lock by boat, Fridays in summer."


def agent(key: str, does: str, *tools: str) -> Agent:
    """Return a member of the pipeline."""
    return Agent(
        key, prompt=f"You are {{agent_key}} of a document pipeline. {does}\n{{tools}}\n{{tool_history}}", tools=tools
    )


draft = agent("draft", "Write the document called draft from the brief; answer with its name alone.", "document.write")
facts = agent("facts", "Hold every figure of the draft against the books.", "document.read", "facts.look_up")
style = agent("style", "Say which sentences are too long, and how to cut them.", "document.read", "style.measure")
legal = agent("legal", "Say which promises can't be kept.", "document.read", "legal.scan")
merge = agent(
    "merge",
    "You are given the reviews. Read the draft, and write the document called final.",
    "document.read",
    "document.write",
)

PIPELINE = Swarm(
    "document_pipeline",
    flow=draft >> (facts | style | legal) >> merge,
    description="Writes a document, has it reviewed three ways at once, and merges the reviews.",
)


async def main(words: Sequence[str] | None = None) -> None:
    """Publish the pipeline, let a document go through it, and print what became of it."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--script", type=Path, help="play these decisions instead of asking a model")
    asked.add_argument("--model", help="ask this model, whatever the network says")
    asked.add_argument("--server", help="the platform's address, unless it runs here")
    given = asked.parse_args(words)
    options = {"model": given.model, "script": None if given.script is None else json.loads(given.script.read_text())}
    async with Client(given.server) as client:
        await client.networks.publish(PIPELINE)
        run = await client.run(PIPELINE.name, BRIEF, **{k: v for k, v in options.items() if v is not None})
        tree = await client.tree(run.run_id)
    for child in tree.children:
        print(f"{child.agent_key:6} {child.status} {child.run_id}")  # noqa: T201
    print(f"{run.status}: {json.dumps(run.final)}\ntowpath runs tree {run.run_id}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
