"""The Merkle tree of RFC 9162, section 2 (the hashing of RFC 6962): roots, the right edge of a growing tree, proofs.

A leaf is hashed with a leading 0x00 and a node with 0x01, so that no node can pass for a leaf. The shape of the
tree follows from its size alone; nothing is ever rebalanced, so an old tree is always a part of a newer one.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


class ProofError(Exception):
    """A proof does not prove what it claims; the message says where it fails."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds *data*."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above *left* and *right*."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class MerkleFrontier:
    """What is needed to let a tree grow: the roots of its perfect subtrees, the largest first.

    There is one for each set bit of `size`, so it stays small however large the tree is.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.hashes) != self.size.bit_count():
            msg = f"an edge of {self.size} leaves has {self.size.bit_count()} hashes, not {len(self.hashes)}"
            raise ValueError(msg)
        if any(len(one) != HASH_BYTES for one in self.hashes):
            msg = f"a hash has {HASH_BYTES} bytes"
            raise ValueError(msg)

    def extended(self, leaves: Iterable[bytes]) -> "MerkleFrontier":
        """Return the edge after adding the leaf hashes *leaves*; costs about one hash for each."""
        size, hashes = self.size, list(self.hashes)
        for leaf in leaves:
            one, below = leaf, size
            while below & 1:  # a perfect subtree of the same height is to the left: join the two
                one = node_hash(hashes.pop(), one)
                below >>= 1
            hashes.append(one)
            size += 1
        return MerkleFrontier(size, tuple(hashes))

    @property
    def root(self) -> bytes:
        """The root of the whole tree."""
        if not self.hashes:
            return EMPTY_ROOT
        root = self.hashes[-1]
        for left in reversed(self.hashes[:-1]):
            root = node_hash(left, root)
        return root

    def packed(self) -> bytes:
        """Return the hashes as one string of bytes."""
        return b"".join(self.hashes)

    @classmethod
    def unpacked(cls, size: int, data: bytes) -> "MerkleFrontier":
        """Return the edge that `packed` wrote; raises ValueError for bytes that are none of a tree of *size*."""
        return cls(size, tuple(data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)))


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over the leaf hashes *leaves*."""
    return MerkleFrontier().extended(leaves).root


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Return the path from leaf *index* to the root over *leaves*, from the bottom up (RFC 9162, section 2.1.3.1)."""
    if not 0 <= index < len(leaves):
        msg = f"there is no leaf {index} in a tree of {len(leaves)}"
        raise ValueError(msg)
    path: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low = middle
    return tuple(reversed(path))


def check_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that *leaf* is leaf *index* of the tree of *size* leaves with *root* (RFC 9162, section 2.1.3.2).

    Raises ProofError.
    """
    if not 0 <= index < size:
        msg = f"there is no leaf {index} in a tree of {size}"
        raise ProofError(msg)
    place, last, found = index, size - 1, leaf
    for one in proof:
        if last == 0:
            raise ProofError("the proof is too long")
        if place & 1 or place == last:
            found = node_hash(one, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, one)
        place, last = place >> 1, last >> 1
    if last != 0:
        raise ProofError("the proof is too short")
    if found != root:
        raise ProofError("the proof leads to another root")


def consistency_proof(leaves: Sequence[bytes], old: int) -> tuple[bytes, ...]:
    """Return the proof that the tree over *leaves* began with its first *old* leaves (RFC 9162, section 2.1.4.1)."""
    if not 0 < old <= len(leaves):
        msg = f"no tree of {old} leaves lies in one of {len(leaves)}"
        raise ValueError(msg)
    proof: list[bytes] = []
    low, high, whole = 0, len(leaves), True
    while old != high:
        middle = low + _split(high - low)
        if old <= middle:
            proof.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            proof.append(tree_root(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        proof.append(tree_root(leaves[low:high]))
    return tuple(reversed(proof))


def check_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the tree of *new* leaves began with the tree of *old* leaves (RFC 9162, section 2.1.4.2).

    Raises ProofError. Every tree begins with the empty one, and that needs no proof.
    """
    if not 0 <= old <= new:
        msg = f"a tree of {new} leaves can't begin with one of {old}"
        raise ProofError(msg)
    if old in (0, new):
        if proof:
            raise ProofError("the proof is too long")
        if old_root != (EMPTY_ROOT if old == 0 else new_root):
            raise ProofError("the roots differ")
        return
    path = list(proof)
    if old & (old - 1) == 0:  # the old tree is perfect, so its root is a node of the new one
        path.insert(0, old_root)
    if not path:
        raise ProofError("the proof is too short")
    _check_path(old, new, old_root, new_root, path)


def _check_path(old: int, new: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]) -> None:
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for one in path[1:]:
        if last == 0:
            raise ProofError("the proof is too long")
        if place & 1 or place == last:
            before, after = node_hash(one, before), node_hash(one, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, one)
        place, last = place >> 1, last >> 1
    if last != 0:
        raise ProofError("the proof is too short")
    if before != old_root:
        raise ProofError("the proof leads to another old root")
    if after != new_root:
        raise ProofError("the proof leads to another new root")


def _split(size: int) -> int:
    """Return the largest power of two below *size*: the number of leaves below the left child."""
    return 1 << ((size - 1).bit_length() - 1)
