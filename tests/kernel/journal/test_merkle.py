import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.kernel.journal import merkle

LEAVES = [merkle.leaf_hash(str(number).encode()) for number in range(70)]


def reference(leaves: list[bytes]) -> bytes:
    """MTH as RFC 6962 section 2.1 defines it, recursively."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + reference(leaves[:split]) + reference(leaves[split:])).digest()


def subtree(start: int, stop: int) -> bytes:
    return reference(LEAVES[start:stop])


def test_known_vectors_of_certificate_transparency() -> None:
    # From the test data of the reference implementation of RFC 6962.
    data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    leaves = [merkle.leaf_hash(bytes.fromhex(text)) for text in data]
    assert merkle.tree_hash([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle.tree_hash(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle.tree_hash(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_a_growing_tree_has_the_roots_of_the_definition() -> None:
    tree = merkle.Tree()
    for size, leaf in enumerate(LEAVES, start=1):
        tree.append(leaf)
        assert tree.root() == reference(LEAVES[:size])
        assert merkle.Tree(tree.size, tree.peaks).root() == tree.root()


def test_peaks_must_fit_the_size() -> None:
    with pytest.raises(ValueError, match="3 leaves has 2 peaks"):
        merkle.Tree(3, [LEAVES[0]])


def test_a_copy_grows_alone() -> None:
    tree = merkle.Tree()
    tree.append(LEAVES[0])
    other = tree.copy()
    other.append(LEAVES[1])
    assert (tree.size, other.size) == (1, 2)
    assert tree.root() == LEAVES[0]


@given(size=st.integers(1, 70), data=st.data())
def test_inclusion_proofs_hold_and_only_for_their_leaf(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    root = reference(LEAVES[:size])
    proof = merkle.inclusion_proof(index, size, subtree)
    assert merkle.verify_inclusion(LEAVES[index], index, size, proof, root)
    other = data.draw(st.integers(0, size - 1).filter(lambda number: number != index) if size > 1 else st.just(-1))
    assert not merkle.verify_inclusion(LEAVES[index], other, size, proof, root)
    assert not merkle.verify_inclusion(merkle.leaf_hash(b"other"), index, size, proof, root)
    assert not merkle.verify_inclusion(LEAVES[index], index, size, [*proof, LEAVES[0]], root)
    if proof:
        assert not merkle.verify_inclusion(LEAVES[index], index, size, proof[:-1], root)


@given(new=st.integers(1, 70), data=st.data())
def test_consistency_proofs_hold_and_only_for_their_trees(new: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, new))
    proof = merkle.consistency_proof(old, new, subtree)
    old_root, new_root = reference(LEAVES[:old]), reference(LEAVES[:new])
    assert merkle.verify_consistency(old, new, old_root, new_root, proof)
    assert not merkle.verify_consistency(old, new, merkle.leaf_hash(b"other"), new_root, proof)
    assert not merkle.verify_consistency(old, new, old_root, merkle.leaf_hash(b"other"), proof)
    assert not merkle.verify_consistency(old, new, old_root, new_root, [*proof, LEAVES[0]])
    if proof:
        assert not merkle.verify_consistency(old, new, old_root, new_root, proof[:-1])


def test_there_are_no_proofs_outside_the_tree() -> None:
    with pytest.raises(ValueError, match="leaf 3"):
        merkle.inclusion_proof(3, 3, subtree)
    with pytest.raises(ValueError, match="from 0 to 3"):
        merkle.consistency_proof(0, 3, subtree)
    assert not merkle.verify_inclusion(LEAVES[0], 3, 3, [], LEAVES[0])
    assert not merkle.verify_consistency(0, 3, LEAVES[0], LEAVES[0], [])
    assert not merkle.verify_consistency(3, 4, LEAVES[0], LEAVES[0], [])
