"""LangGraph with its Postgres checkpointer, in one process: a node for the decision, a node for the tool call.

Durability is `sync`: a checkpoint is stored before the next node begins. The state holds all messages, as agents' do.
"""

import argparse
import contextlib
import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from peers.command import Execute, main
from workload import answer, call, decision

CONNECTION = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
Pool = AsyncConnectionPool[AsyncConnection[dict[str, Any]]]


class State(TypedDict):
    """What a checkpoint holds."""

    steps: int
    done: int
    messages: Annotated[list[dict[str, Any]], operator.add]


async def decide(state: State) -> dict[str, Any]:
    """The model's decision."""
    return {"messages": [decision("echo", state["done"])]}


async def act(state: State) -> dict[str, Any]:
    """The tool call."""
    return {"messages": [call(state["messages"][-1])], "done": state["done"] + 1}


def graph() -> StateGraph[State]:
    """Return the loop of decision and call."""
    made = StateGraph(State)
    made.add_node("decide", decide)
    made.add_node("act", act)
    made.add_edge(START, "decide")
    made.add_edge("decide", "act")
    made.add_conditional_edges("act", lambda state: END if state["done"] >= state["steps"] else "decide")
    return made


@contextlib.asynccontextmanager
async def opened(options: argparse.Namespace) -> AsyncIterator[Execute]:
    """Connect, make the checkpointer's tables and compile the graph."""
    pool: Pool = AsyncConnectionPool(options.database, min_size=4, max_size=20, open=False, kwargs=CONNECTION)
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        compiled = graph().compile(checkpointer=saver)

        async def execute(run_id: str, steps: int) -> str:
            config: RunnableConfig = {"configurable": {"thread_id": run_id}, "recursion_limit": 4 * steps + 20}
            given: State = {"steps": steps, "done": 0, "messages": []}
            ended = await compiled.ainvoke(given, config, durability="sync")
            return answer(run_id, ended["done"])

        yield execute


if __name__ == "__main__":
    main(opened, ("langgraph", "langgraph-checkpoint-postgres", "psycopg"))
