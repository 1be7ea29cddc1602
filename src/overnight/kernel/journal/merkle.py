"""The Merkle tree of RFC 6962 (Certificate Transparency), section 2.1: tree hashes, inclusion and consistency proofs.

Leaves are given as their hashes. A tree that grows is kept as its *peaks*, the roots of the perfect subtrees from left
to right, so that appending costs one or two hashes and a root costs the logarithm of the size.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence

EMPTY_ROOT = hashlib.sha256().digest()
"""The tree hash of no leaves."""

_NODE = b"\x01"

Subtree = Callable[[int, int], bytes]
"""Gives the tree hash of the leaves `start` (included, from 0) to `stop` (excluded)."""


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf that carries `data`."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(_NODE + left + right).digest()


class Tree:
    """A tree that only grows, in memory of the logarithm of its size. Not thread-safe."""

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        """Go on from `size` leaves with these `peaks`.

        Raises:
            ValueError: so many peaks don't belong to that size.
        """
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} peaks, not {len(self.peaks)}")

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        peaks = self.peaks
        # One peak is merged for each trailing one bit of the size, like a carry.
        carry = self.size
        while carry & 1:
            leaf = hashlib.sha256(_NODE + peaks.pop() + leaf).digest()
            carry >>= 1
        peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The tree hash of all leaves so far."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def copy(self) -> "Tree":
        """An independent tree of the same leaves."""
        return Tree(self.size, self.peaks)


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """The tree hash of these leaf hashes."""
    tree = Tree()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()


def inclusion_proof(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """Hashes that prove leaf `index` (from 0) lies in the tree of `size` leaves, the deepest first.

    Raises:
        ValueError: there is no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    proof: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            proof.append(subtree(middle, stop))
            stop = middle
        else:
            proof.append(subtree(start, middle))
            start = middle
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows that `leaf` is leaf `index` of the tree with this `size` and `root` (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, computed = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            while node and not node & 1:
                node >>= 1
                last >>= 1
        else:
            computed = node_hash(computed, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and computed == root


def consistency_proof(old: int, new: int, subtree: Subtree) -> list[bytes]:
    """Hashes that prove the tree of `new` leaves begins with the one of `old` leaves.

    Raises:
        ValueError: not 0 < old <= new.
    """
    if not 0 < old <= new:
        raise ValueError(f"no consistency proof from {old} to {new} leaves")
    proof: list[bytes] = []
    start, stop, whole = 0, new, True
    while stop != old:
        middle = start + _split(stop - start)
        if old <= middle:
            proof.append(subtree(middle, stop))
            stop = middle
        else:
            proof.append(subtree(start, middle))
            start, whole = middle, False
    if not whole:
        proof.append(subtree(start, stop))
    return proof[::-1]


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the tree with `new_root` begins with the one with `old_root` (RFC 9162, 2.1.4.2)."""
    if not 0 < old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    node, last = old - 1, new - 1
    while node & 1:
        node >>= 1
        last >>= 1
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while node and not node & 1:
                node >>= 1
                last >>= 1
        else:
            second = node_hash(second, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and first == old_root and second == new_root


def _split(size: int) -> int:
    """The largest power of two smaller than `size`."""
    return 1 << ((size - 1).bit_length() - 1)
