"""The tree of the audit against the recursive definitions of RFC 6962, and roots that other implementations publish."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath_audit.merkle import (
    EMPTY_ROOT,
    MerkleFrontier,
    ProofError,
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    tree_root,
)

INPUTS = [
    bytes.fromhex(text)
    for text in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""The test vectors of Certificate Transparency's own code, for 1 to 8 leaves."""

SIZES = st.integers(1, 70)


def mth(data: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = split(len(data))
    return hashlib.sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def path(m: int, data: list[bytes]) -> list[bytes]:
    """RFC 6962, section 2.1.1."""
    if len(data) == 1:
        return []
    k = split(len(data))
    return [*path(m, data[:k]), mth(data[k:])] if m < k else [*path(m - k, data[k:]), mth(data[:k])]


def subproof(m: int, data: list[bytes], whole: bool) -> list[bytes]:
    """RFC 6962, section 2.1.2."""
    if m == len(data):
        return [] if whole else [mth(data)]
    k = split(len(data))
    if m <= k:
        return [*subproof(m, data[:k], whole), mth(data[k:])]
    return [*subproof(m - k, data[k:], False), mth(data[:k])]


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def some(n: int) -> tuple[list[bytes], list[bytes]]:
    data = [f"entry {i}".encode() for i in range(n)]
    return data, [leaf_hash(one) for one in data]


def test_the_published_roots_are_ours() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    hashes = [leaf_hash(one) for one in INPUTS]
    assert [tree_root(hashes[:n]).hex() for n in range(1, 9)] == list(ROOTS)


@given(n=st.integers(0, 70), cuts=st.lists(st.integers(0, 70), max_size=3))
@settings(max_examples=60, deadline=None)
def test_a_tree_that_grew_in_pieces_has_the_root_of_the_definition(n: int, cuts: list[int]) -> None:
    data, hashes = some(n)
    edge, done = MerkleFrontier(), 0
    for cut in [*sorted(one for one in cuts if one <= n), n]:
        edge = MerkleFrontier.unpacked(edge.size, edge.packed()).extended(hashes[done:cut])
        done = max(done, cut)
    assert (edge.size, edge.root) == (n, mth(data))


@given(n=SIZES, at=st.integers(0, 69), other=st.integers(0, 80))
@settings(max_examples=80, deadline=None)
def test_a_proof_of_inclusion_holds_for_its_leaf_and_place_alone(n: int, at: int, other: int) -> None:
    data, hashes = some(n)
    index, root = at % n, mth(data)
    proof = inclusion_proof(hashes, index)
    assert list(proof) == path(index, data)
    check_inclusion(hashes[index], index, n, proof, root)
    wrong = [
        (leaf_hash(b"x"), index, n, proof, root),
        (hashes[index], index, n, (*proof, hashes[0]), root),
        (hashes[index], index, n, proof, mth([*data, b"more"])),
        *([(hashes[index], index, n, proof[1:], root)] if proof else []),
        *([(hashes[index], other, n, proof, root)] if other != index else []),
    ]
    for values in wrong:
        with pytest.raises(ProofError):
            check_inclusion(*values)


@given(n=SIZES, at=st.integers(0, 69), flipped=st.integers(0, 20))
@settings(max_examples=80, deadline=None)
def test_a_proof_of_consistency_holds_for_a_tree_that_only_grew(n: int, at: int, flipped: int) -> None:
    data, hashes = some(n)
    old = at % n + 1
    proof = consistency_proof(hashes, old)
    assert list(proof) == subproof(old, data, True)
    check_consistency(old, n, mth(data[:old]), mth(data), proof)
    rewritten = [*data[: old - 1], b"another", *data[old:]]
    with pytest.raises(ProofError):
        check_consistency(old, n, mth(rewritten[:old]), mth(data), proof)
    if proof:
        broken = list(proof)
        broken[flipped % len(broken)] = leaf_hash(b"x")
        for bad in (broken, proof[1:], (*proof, hashes[0])):
            with pytest.raises(ProofError):
                check_consistency(old, n, mth(data[:old]), mth(data), bad)


def test_what_can_not_be_proved_is_refused() -> None:
    _, hashes = some(5)
    for index in (-1, 5):
        with pytest.raises(ValueError, match="no leaf"):
            inclusion_proof(hashes, index)
        with pytest.raises(ProofError):
            check_inclusion(hashes[0], index, 5, (), hashes[0])
    for old in (0, 6):
        with pytest.raises(ValueError, match="no tree"):
            consistency_proof(hashes, old)
    check_consistency(0, 5, EMPTY_ROOT, tree_root(hashes), ())
    for values in ((6, 5, b"", b"", ()), (0, 5, b"x", b"y", ()), (5, 5, b"x", b"y", ()), (0, 5, b"", b"", (b"",))):
        with pytest.raises(ProofError):
            check_consistency(*values)
    for size, data in ((1, b""), (2, bytes(31)), (3, bytes(32)), (-1, b"")):
        with pytest.raises(ValueError, match="hash"):
            MerkleFrontier.unpacked(size, data)
