"""The clusters of one computation, who reads them, and what happens when two become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Final, final

from lowtide.fusion.access import Access, composed
from lowtide.fusion.cluster import Cluster, ClusterRead, KernelKind
from lowtide.fusion.legality import Joint, add_read, joined, seed
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Convolution, Scatter
from lowtide.ir.traversal import post_order

_GROWTH: Final = 2
"""How many times as many instructions as there were may be written once more.

That is before kernels that are the same are made one.
"""

_LEAST_ROOM: Final = 64


@final
class ClusterGraph:
    """A computation as kernels.

    `order` numbers the instructions, operands first. `owner` has the cluster that stores the value
    of an instruction, `alone` the instructions that are no part of a cluster. `readers` has the
    values whose clusters read a value, `opaque` the values that have to be stored, with the
    position of the last instruction that needs them. `room` is how many instructions may still be
    written once more.
    """

    def __init__(self, computation: Computation, target: TargetRecord) -> None:
        self.computation, self.target = computation, target
        self.order = {x: number for number, x in enumerate(post_order(computation))}
        self.owner: dict[Instruction, Cluster] = {}
        self.alone: dict[Instruction, None] = {}
        self.readers: dict[Instruction, dict[Instruction, None]] = {}
        self.opaque: dict[Instruction, int] = {computation.root: len(self.order)}
        self.room = max(_LEAST_ROOM, _GROWTH * len(self.order))
        self._own: set[Cluster] | None = None
        """The clusters that no copy of this graph has; None where there is no copy."""
        self._seeds: dict[Instruction, Cluster | None] = {}
        """Clusters of one instruction, which never change."""
        self.seconds_of: dict[Cluster, tuple[Mapping[Instruction, ClusterRead], float]] = {}
        """The seconds of kernels, for as long as they have these reads: copies share them."""
        for instruction, position in self.order.items():
            self._add(instruction, position)

    def _add(self, instruction: Instruction, position: int) -> None:
        cluster = seed(instruction, position, self.target)
        if cluster is None:
            self.alone[instruction] = None
            for operand in instruction.operands:
                self.opaque[operand] = max(self.opaque.get(operand, 0), position)
            return
        self.owner[instruction] = cluster
        for operand in cluster.inputs:
            self.readers.setdefault(operand, {})[instruction] = None

    def reading(self, value: Instruction) -> list[Cluster]:
        """Return the clusters that read a value."""
        return [self.owner[x] for x in self.readers.get(value, ())]

    def copy(self) -> ClusterGraph:
        """Return the same clusters, which may be changed without a change of these."""
        other = ClusterGraph.__new__(ClusterGraph)
        other.computation, other.order = self.computation, self.order
        other.target = self.target
        other.alone, other.opaque, other.room = self.alone, self.opaque, self.room
        other.owner = self.owner.copy()
        other.readers = {value: readers.copy() for value, readers in self.readers.items()}
        other._own, self._own = set(), set()
        other._seeds, other.seconds_of = self._seeds, self.seconds_of
        return other

    # -- changes -------------------------------------------------------------------------------

    def spread_free_values(self) -> None:
        """Compute constants, iotas and what is cheaply made of them wherever they are read."""
        dear = self.target.machine.transcendental_seconds
        for root in self.order:
            cluster = self.owner.get(root)
            if cluster is None or not cluster.is_free or cluster.kind is not KernelKind.LOOP:
                continue
            if cluster.seconds < dear * root.shape.element_count:
                joints = [(x, joined(cluster, x, self.target)) for x in self.reading(root)]
                self.absorb(
                    cluster, [(x, joint) for x, joint in joints if isinstance(joint, Joint)]
                )

    def absorb(self, producer: Cluster, joints: Sequence[tuple[Cluster, Joint]]) -> None:
        """Make readers compute what they read; a value that nothing else needs is gone.

        `producer` is the cluster that stores the value, or one that computes it from other values.
        """
        root = producer.root
        readers = self.readers.get(root, {})
        for reader, joint in joints:
            times = evaluations(reader, reader.inputs[root], producer)
            join(producer, self._changeable(reader), joint, times)
            del readers[reader.root]
            for operand in producer.inputs:
                self.readers.setdefault(operand, {})[reader.root] = None
        if readers or root in self.opaque:
            return
        gone = self.owner.pop(root)
        self.readers.pop(root, None)
        for operand in gone.inputs:
            self.readers[operand].pop(root, None)

    def _changeable(self, cluster: Cluster) -> Cluster:
        """The same cluster, or a copy in its place where a copy of this graph has it too."""
        if self._own is None or cluster in self._own:
            return cluster
        cluster = self.owner[cluster.root] = copied(cluster)
        self._own.add(cluster)
        return cluster

    def split(
        self, value: Instruction, readers: Sequence[Cluster], product: Cluster | None = None
    ) -> bool:
        """Store a value that clusters compute, and have them read it; return whether they can.

        Where a `product` is given, its kernel stores the value instead of the product. Nothing
        changes where they cannot.
        """
        stored = self._rebuilt(value, _cone(value, readers[0]))
        if stored is None:
            return False
        left = [(x.root, _needed(x, value)) for x in readers if x.root is not value]
        behind: list[tuple[Cluster, Joint]] = []
        if product is not None:  # Asked first: to make what is left of readers takes longer.
            joint = joined(product, stored, self.target)
            if not isinstance(joint, Joint) or any(_reads(x, product.root) for _, x in left):
                return False
            behind.append((stored, joint))
        new: list[Cluster] = []
        for root, members in left:
            rebuilt = self._rebuilt(root, members)
            if rebuilt is None:
                return False
            new.append(rebuilt)
        for cluster in (stored, *new):
            self._replace(self.owner.get(cluster.root), cluster)
        if product is not None:
            self.absorb(product, behind)
        return True

    def _replace(self, old: Cluster | None, new: Cluster) -> None:
        """Put a cluster in the place of the one that stored the same value, if there was one."""
        if old is not None:
            for operand in old.inputs:
                del self.readers[operand][old.root]
        for operand in new.inputs:
            self.readers.setdefault(operand, {})[new.root] = None
        self.owner[new.root] = new
        if self._own is not None:
            self._own.add(new)

    def _rebuilt(self, root: Instruction, members: Mapping[Instruction, None]) -> Cluster | None:
        """The cluster of some instructions, which compute `root`; None where there is none."""
        cluster = seed(root, self.order[root], self.target)
        if cluster is None:
            return None
        cluster.whole = members
        for member in sorted(members, key=self.order.__getitem__, reverse=True):
            if member is root:
                continue
            if member not in cluster.inputs:
                return None
            alone = self._seed(member)
            joint = None if alone is None else joined(alone, cluster, self.target)
            if alone is None or not isinstance(joint, Joint):
                return None
            join(alone, cluster, joint, _passes(cluster, cluster.inputs[member], alone))
        if cluster.counted.members:
            _, needed, cluster.most_pieces = cluster.counted
            for value, read in cluster.inputs.items():
                cluster.inputs[value] = read._replace(pieces=needed[value].pieces)
        cluster.whole = None
        return cluster

    def _seed(self, instruction: Instruction) -> Cluster | None:
        if instruction not in self._seeds:
            position = self.order[instruction]
            self._seeds[instruction] = seed(instruction, position, self.target)
        return self._seeds[instruction]


def _cone(value: Instruction, cluster: Cluster) -> dict[Instruction, None]:
    """The members of a cluster that a value is computed from, it included."""
    return _reached(value, cluster, None)


def _needed(cluster: Cluster, value: Instruction) -> dict[Instruction, None]:
    """The members of a cluster that are needed where a value is given."""
    return _reached(cluster.root, cluster, value)


def _reads(members: Mapping[Instruction, None], value: Instruction) -> bool:
    """Whether some instructions read a value."""
    return any(value in x.operands for x in members)


def _reached(
    start: Instruction, cluster: Cluster, stop: Instruction | None
) -> dict[Instruction, None]:
    found = {start: None}
    stack = [start]
    while stack:
        for operand in stack.pop().operands:
            if operand in cluster.members and operand is not stop and operand not in found:
                found[operand] = None
                stack.append(operand)
    return found


def join(producer: Cluster, reader: Cluster, joint: Joint, times: float) -> None:
    """Make a cluster compute what it reads from another one; what they are together is known.

    Each element is computed so many times.
    """
    root = producer.root
    read = reader.inputs[root]
    pieces = reader.pieces_with(producer, read.pieces)
    del reader.inputs[root]
    inputs, outer = reader.inputs.copy(), joint.consumer
    if outer is None or any(d != i for i, d in enumerate(outer)):
        inputs = {x: _through(outer, own) for x, own in inputs.items()}
    for operand, own in producer.inputs.items():
        access = composed(joint.producer, own.access)
        nbytes = scaled(own.nbytes, read, root)
        inner = own.inner or joint.inner
        add_read(
            inputs,
            operand,
            ClusterRead(
                access, nbytes, own.target, inner, own.pieces * read.pieces, own.times * read.times
            ),
        )
    reader.inputs = inputs
    reader.most_pieces = pieces
    reader.members |= producer.members
    reader.seconds += producer.seconds * max(1.0, times)
    reader.kind, reader.space, reader.kept = joint.kind, joint.space, joint.kept
    reader.root_access = joint.root_access
    reader.hero = reader.hero or producer.hero
    reader.packable = reader.packable and producer.packable


def _through(outer: Access, read: ClusterRead) -> ClusterRead:
    """How something is read from a space through which its reader is seen."""
    access = composed(outer, read.access)
    if access == read.access:
        return read
    return read._replace(access=access)


def copied(cluster: Cluster) -> Cluster:
    """Return a cluster that may be changed without a change of this one."""
    return Cluster(
        cluster.kind,
        cluster.root,
        cluster.space,
        cluster.kept,
        cluster.root_access,
        cluster.members.copy(),
        cluster.inputs.copy(),
        cluster.seconds,
        cluster.hero,
        cluster.packable,
        cluster.position,
        cluster.version,
        cluster.most_pieces,
        cluster.counted,
    )


def scaled(nbytes: int, read: ClusterRead, root: Instruction) -> int:
    """Return the bytes read of a producer's operand where only a part of its value is read."""
    whole = root.shape.nbytes
    if read.nbytes >= whole or not whole:
        return nbytes
    return nbytes * read.nbytes // whole


def evaluations(reader: Cluster, read: ClusterRead, producer: Cluster) -> float:
    """Return how often each element of what a producer stores would be computed in a reader."""
    times = 1.0 if read.inner else read.times
    if times > _ONCE:
        needs = reader.needs().get(producer.root)
        times = times if needs is None else needs.times
    return _passes(reader, read, producer) * times


_ONCE: Final = 1.001
"""Shares of a concatenate come to one up to rounding."""


def _passes(reader: Cluster, read: ClusterRead, producer: Cluster) -> float:
    """How often each element is met, if every element of the space reads one."""
    if read.inner:
        return _packings(reader, producer)
    elements = producer.root.shape.element_count
    if not elements or _is_hoisted(read.access, reader.space, _windows(reader)):
        return 1.0
    return prod(reader.space) / elements


def _windows(reader: Cluster) -> tuple[int, ...]:
    """The dimensions that a scatter goes through for each index, whatever their place."""
    hero = reader.hero
    if hero is None or hero.opcode is not Opcode.SCATTER:
        return ()
    return hero.attributes_as(Scatter).update_window_dims


@lru_cache(maxsize=1 << 14)
def _is_hoisted(access: Access, space: tuple[int, ...], inner: tuple[int, ...]) -> bool:
    """Whether inner loops leave it alone: it depends on the outermost dimensions only.

    Loops over `inner` are within the others. Dimensions of size 1 are no loops.
    """
    if access is None:
        return False
    used = sorted([d for d in access if d >= 0])
    outer = [d for d in range(len(space)) if d not in inner]
    loops = [d for d in (*outer, *inner) if space[d] != 1]
    return used == sorted(loops[: len(used)])


_REPACKED: Final = 1.5
"""How often an operand of a contraction is packed, where its panels stay in the cache."""


_ALONE: Final = 12
"""How many times as long as in vectors an element takes that is computed and stored by itself."""

_LINE: Final = 64
"""Features of a place that take fewer bytes are packed one by one where they lie apart."""


def _packings(reader: Cluster, producer: Cluster) -> float:
    """How often an operand of a contraction is read while it is packed.

    Each element of the image that a convolution slides over is met by every tap of the window, at
    every place that there is room for; by itself where few features are made of what lies apart.
    """
    hero, root = reader.hero, producer.root
    if hero is None or hero.opcode is not Opcode.CONVOLUTION or hero.operands[0] is not root:
        return _REPACKED
    attributes = hero.attributes_as(Convolution)
    taps = prod([x.size for x in attributes.window.dimensions])
    places = prod([hero.shape.dimensions[i] for i in attributes.dimensions.output_spatial])
    image = prod([root.shape.dimensions[i] for i in attributes.dimensions.input_spatial])
    meetings = taps * places / max(1, image)
    if taps > 1 and _is_apart(producer, attributes.dimensions.input_feature):
        meetings *= _ALONE
    return max(_REPACKED, meetings)


def _is_apart(producer: Cluster, dimension: int) -> bool:
    """Whether neighbours along a short dimension of a result are none in what it is made of."""
    shape, access = producer.root.shape, producer.root_access
    size = shape.dimensions[dimension]
    if access is None or size == 1 or size * shape.nbytes >= _LINE * shape.element_count:
        return False
    wanted = access[dimension]
    for value, read in producer.inputs.items():
        sizes = value.shape.dimensions
        if read.access is None or value.shape.element_count < shape.element_count:
            continue
        fastest = [d for d, n in zip(read.access, sizes, strict=True) if n != 1]
        if fastest and fastest[-1] != wanted:
            return True
    return False
