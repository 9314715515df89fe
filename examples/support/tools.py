"""The shop's tools: looking an order up and refunding it, over a small SQLite file.

The file is `.towpath/support/orders.sqlite3` below the folder the worker was started in; `SHOP_DATABASE` names
another. It is made with three orders when it isn't there yet.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath import ToolContext, ToolError, tool

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
  order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, paid REAL NOT NULL, status TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS refunds (
  refund_id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, amount REAL NOT NULL, reason TEXT NOT NULL
);
"""
ORDERS = (
    ("8811", "Ada Okafor", "Desk lamp", 39.5, "delivered"),
    ("8812", "Mia Lindqvist", "Espresso grinder", 129.0, "delivered"),
    ("8813", "Jun Park", "Standing desk", 480.0, "shipped"),
)


class ShopSettings(BaseSettings):
    """Where the shop keeps its orders; read from SHOP_DATABASE."""

    model_config = SettingsConfigDict(env_prefix="SHOP_")

    database: Path = Path(".towpath/support/orders.sqlite3")


class Order(BaseModel):
    """An order as the agents see it. Money is in EUR."""

    order_id: str
    customer: str
    item: str
    paid: float
    status: str
    refunded: float


class Refund(BaseModel):
    """A refund that was booked. Money is in EUR."""

    refund_id: str
    order_id: str
    amount: float


@contextmanager
def shop() -> Iterator[sqlite3.Connection]:
    """Open the order database, made on first use; a transaction begun inside is committed when the block ends well."""
    path = ShopSettings().database
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection, connection:
        connection.executescript(SCHEMA)
        connection.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?)", ORDERS)
        yield connection


def read_order(connection: sqlite3.Connection, order_id: str) -> Order:
    """Return an order with what was refunded of it; raises ToolError `order_unknown`."""
    row = connection.execute(
        "SELECT order_id, customer, item, paid, status,"
        " (SELECT coalesce(sum(amount), 0) FROM refunds WHERE refunds.order_id = orders.order_id)"
        " FROM orders WHERE order_id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise ToolError("order_unknown", f"There is no order {order_id}.", hint="Ask the customer for the number.")
    return Order(**dict(zip(Order.model_fields, row, strict=True)))


@tool(name="orders.find", toolset="support", effect_class="pure", trusted_output=True, summary="Find order {order_id}")
def find_order(order_id: str) -> Order:
    """Look an order up.

    Args:
        order_id: The order's number.
    """
    with shop() as connection:
        return read_order(connection, order_id)


@tool(name="orders.refund", toolset="support", effect_class="irreversible", summary="Refund {amount} of {order_id}")
def refund_order(order_id: str, amount: float = Field(gt=0), reason: str = "", *, ctx: ToolContext) -> Refund:
    """Give money of an order back.

    Args:
        order_id: The order's number, as orders.find shows it.
        amount: How much to give back, in EUR.
        reason: Why, for the books.
    """
    with shop() as connection:
        connection.execute("BEGIN IMMEDIATE")  # one refund at a time, so that no two pass the same check
        order = read_order(connection, order_id)
        left = round(order.paid - order.refunded, 2)
        if amount > left:
            raise ToolError("refund_too_large", f"Only {left:.2f} of order {order_id} is left to refund.")
        refund = Refund(refund_id=f"rf_{str(ctx.execution_id)[-8:]}", order_id=order_id, amount=amount)
        connection.execute("INSERT INTO refunds VALUES (?, ?, ?, ?)", (refund.refund_id, order_id, amount, reason))
        return refund
