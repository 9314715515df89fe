"""Computes the path of a leaf to the root of the Merkle tree without reading the whole tree.

A path is computed from stored leaf hashes and stored checkpoints. It needs no trust: whoever receives it checks it
against a root that was signed before.
"""

from collections.abc import Sequence
from typing import Any

from towpath_audit.merkle import MerkleFrontier, node_hash, tree_root
from towpath_tas.app.audit.sealer import QUERIES

BLOCK_LEAVES = 512
"""Leaf hashes that are read at once, 16 KB; a larger subtree comes from a checkpoint or is split. Each level of a path
that no checkpoint has needs a block, so larger blocks cost more than the questions that they save."""


class MissingLeavesError(Exception):
    """Leaves that a path needs are missing and no checkpoint replaces them; the message says which."""


class MerklePaths:
    """Computes Merkle paths in the audit log over one *connection*; caches what it has read."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._roots: dict[tuple[int, int], bytes] = {}
        self._blocks: dict[int, dict[int, bytes]] = {}

    async def of(self, index: int, size: int) -> tuple[bytes, ...]:
        """Return the path of leaf *index* in the tree of the first *size* leaves, from the bottom up.

        Raises MissingLeavesError, and ValueError where the tree has no such leaf.
        """
        if not 0 <= index < size:
            msg = f"there is no leaf {index} in a tree of {size}"
            raise ValueError(msg)
        path: list[bytes] = []
        low, high = 0, size
        while high - low > 1:
            middle = low + (1 << ((high - low - 1).bit_length() - 1))
            if index < middle:
                path.append(await self._root(middle, high))
                high = middle
            else:
                path.append(await self._root(low, middle))
                low = middle
        return tuple(reversed(path))

    async def _root(self, low: int, high: int) -> bytes:
        found = self._roots.get((low, high))
        if found is None:
            found = self._roots[low, high] = await self._made(low, high)
        return found

    async def _made(self, low: int, high: int) -> bytes:
        size = high - low
        leaves = await self._leaves(low, high) if size <= BLOCK_LEAVES else ()
        if len(leaves) == size:
            return tree_root(leaves)
        perfect = size & (size - 1) == 0
        stored = await self._stored(low, high) if perfect and low % (2 * size) == 0 else None
        if stored is not None:
            return stored
        if size == 1:
            msg = f"leaf {low} is not kept, and no checkpoint stands for it"
            raise MissingLeavesError(msg)
        middle = low + (1 << ((size - 1).bit_length() - 1))
        return node_hash(await self._root(low, middle), await self._root(middle, high))

    async def _stored(self, low: int, high: int) -> bytes | None:
        """Return the root of a perfect subtree from a checkpoint that ends before its sibling does."""
        row = await self._connection.fetchrow(QUERIES.edge_within, high, 2 * high - low)
        if row is None:
            return None
        try:
            edge = MerkleFrontier.unpacked(row["size"], row["edge"])
        except ValueError:
            return None  # it was altered: use the leaves themselves
        return edge.hashes[
            low.bit_count()
        ]  # one hash for each perfect subtree before it, that is for each bit of its index

    async def _leaves(self, low: int, high: int) -> Sequence[bytes]:
        """Return the stored leaf hashes of a subtree, which lies within one block that is read whole."""
        begin = low - low % BLOCK_LEAVES
        if begin not in self._blocks:
            rows = await self._connection.fetch(QUERIES.leaf_hashes, begin, begin + BLOCK_LEAVES)
            self._blocks[begin] = {row["leaf_index"]: row["hash"] for row in rows}
        block = self._blocks[begin]
        return [block[index] for index in range(low, high) if index in block]
