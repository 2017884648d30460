"""The instructions that may run as one: the list of kernels that code generation has to emit.

An instruction alone is a cluster of one of the kinds of `cluster.py`, or opaque. Two clusters may
become one where the second reads the first in a way that `joined` has a line for; nothing else is
ever fused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

from lowtide.cost.kernels import compute_seconds
from lowtide.cost.machine import Machine
from lowtide.fusion.access import Access, access_of, composed, identity, inverse
from lowtide.fusion.cluster import Cluster, ClusterRead, KernelKind
from lowtide.fusion.code_size import most_pieces, needs, share
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Dimensions, Gather
from lowtide.ops.overwriting import reads_target_elsewhere
from lowtide.ops.surrounding import is_surrounding
from lowtide.ops.table import TABLE

INDEXING: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONCATENATE,
        Opcode.DYNAMIC_SLICE,
        Opcode.GATHER,
        Opcode.IOTA,
        Opcode.PAD,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
"""Operations of loops that compute nothing but where to read."""

_PACKABLE: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONSTANT,
        Opcode.DYNAMIC_SLICE,
        Opcode.IOTA,
        Opcode.RESHAPE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
"""Indexing that can be done while an operand of a contraction is packed."""

_NOT_IN_LOOPS: Final = frozenset({Opcode.COPY, Opcode.MAP, Opcode.STOCHASTIC_CONVERT})


def seed(instruction: Instruction, position: int, target: TargetRecord) -> Cluster | None:
    """Return the cluster of an instruction alone, None where it is opaque."""
    if alone(instruction) is not None:
        return None
    cluster = _seed(instruction, position, target)
    if len(cluster.inputs) < len(instruction.operands):
        cluster.most_pieces = max([x.pieces for x in cluster.inputs.values()])
    return cluster


def _seed(instruction: Instruction, position: int, target: TargetRecord) -> Cluster:
    opcode = instruction.opcode
    if opcode is Opcode.REDUCE:
        return _reduction(instruction, position, target)
    if opcode in (Opcode.DOT, Opcode.CONVOLUTION):
        return _contraction(instruction, position)
    if opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER):
        return _update(instruction, position)
    return _loop(instruction, position, target)


def alone(instruction: Instruction) -> FusionRefusal | None:
    """Return the reason why an instruction is opaque, None where it is not."""
    if instruction.control_predecessors or instruction.control_successors:
        return FusionRefusal(RefusalKind.ORDERED)
    for x in (instruction, *instruction.operands):
        if not _is_plain(x.shape):
            return FusionRefusal(_unplain(x.shape), by=x)
    if instruction.opcode in _HEROES or _is_loop(instruction):
        return None
    return FusionRefusal(RefusalKind.OPAQUE, instruction.opcode.value)


_HEROES: Final = frozenset(
    {Opcode.CONVOLUTION, Opcode.DOT, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.REDUCE, Opcode.SCATTER}
)
"""Operations that are no loops over their result, and may have some around them."""


def _unplain(shape: Shape) -> RefusalKind:
    if not shape.is_array:
        return RefusalKind.TUPLE
    return RefusalKind.DYNAMIC if any(shape.dynamic) else RefusalKind.LAYOUT


@lru_cache(maxsize=1 << 12)
def _is_plain(shape: Shape) -> bool:
    """Whether it is an array in row-major order whose sizes are known."""
    if not shape.is_array or any(shape.dynamic):
        return False
    layout = shape.layout
    return layout is None or layout.minor_to_major == tuple(range(shape.rank - 1, -1, -1))


def _is_loop(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    if opcode is Opcode.CONSTANT:
        return not instruction.shape.rank
    if opcode is Opcode.BITCAST and (
        instruction.shape.element_type is not instruction.operands[0].shape.element_type
    ):
        return False
    if opcode in INDEXING:
        return True
    return TABLE[opcode].elementwise and opcode not in _NOT_IN_LOOPS


def _loop(instruction: Instruction, position: int, target: TargetRecord) -> Cluster:
    if TABLE[instruction.opcode].elementwise:
        return _elementwise(instruction, position, target)
    space = instruction.shape.dimensions
    reads: dict[Instruction, ClusterRead] = {}
    for number, operand in enumerate(instruction.operands):
        access = access_of(instruction, number)
        nbytes = operand.shape.nbytes
        if instruction.opcode in _PARTIAL and number == 0:
            nbytes = min(nbytes, instruction.shape.nbytes)
        times = share(instruction, number)
        add_read(reads, operand, ClusterRead(access, nbytes, times=times))
    return Cluster(
        KernelKind.LOOP,
        instruction,
        space,
        identity(space),
        identity(space),
        {instruction: None},
        reads,
        0.0 if is_surrounding(instruction) else compute_seconds(instruction, target.machine),
        packable=_is_packable(instruction),
        position=position,
    )


def _elementwise(instruction: Instruction, position: int, target: TargetRecord) -> Cluster:
    """The same of an elementwise operation, of which opcode and shapes say all."""
    operands, shape, machine = instruction.operands, instruction.shape, target.machine
    key = (instruction.opcode, shape, *[x.shape for x in operands])
    found = _ELEMENTWISE.get(key)
    if found is None or found[0] is not machine:
        if len(_ELEMENTWISE) >= _MOST_KNOWN:
            _ELEMENTWISE.clear()
        reads = [
            ClusterRead(access_of(instruction, number), x.shape.nbytes)
            for number, x in enumerate(operands)
        ]
        seconds = compute_seconds(instruction, machine)
        found = _ELEMENTWISE[key] = machine, identity(shape.dimensions), reads, seconds
    _, access, reads, seconds = found
    inputs = dict(zip(operands, reads, strict=True))
    if len(inputs) < len(operands):
        inputs = {}
        for operand, read in zip(operands, reads, strict=True):
            add_read(inputs, operand, read)
    return Cluster(
        KernelKind.LOOP,
        instruction,
        shape.dimensions,
        access,
        access,
        {instruction: None},
        inputs,
        seconds,
        packable=_is_packable(instruction),
        position=position,
    )


_ELEMENTWISE: Final[
    dict[tuple[object, ...], tuple[Machine, tuple[int, ...], list[ClusterRead], float]]
] = {}
"""How elementwise operations read, which layers of a model ask again and again."""

_MOST_KNOWN: Final = 1 << 14

_PARTIAL: Final = frozenset({Opcode.DYNAMIC_SLICE, Opcode.SLICE, Opcode.GATHER})
"""Operations that read no more of operand 0 than they return."""


def _is_packable(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    if opcode is Opcode.GATHER:
        return _takes_whole_rows(instruction) and not _looks_bytes_up(instruction)
    if opcode is Opcode.PAD:
        return is_surrounding(instruction)
    return opcode in _PACKABLE or opcode not in INDEXING


def _looks_bytes_up(gather: Instruction) -> bool:
    """Whether a gather takes single bytes, by indices of their own.

    They take no more memory than what the indices are made of, and processors load them one by one:
    packed for each block of a product they would be looked up for each.
    """
    count = math.prod(gather.attributes_as(Gather).slice_sizes)
    return count == 1 and gather.shape.element_type.bits == 8


def _takes_whole_rows(gather: Instruction) -> bool:
    """Whether a gather looks up single indices of some dimensions, and takes all of the others."""
    attributes = gather.attributes_as(Gather)
    sizes = gather.operands[0].shape.dimensions
    looked_up = set(attributes.start_index_map)
    return looked_up <= set(attributes.collapsed_slice_dims) and all(
        i in looked_up or taken == size
        for i, (taken, size) in enumerate(zip(attributes.slice_sizes, sizes, strict=True))
    )


def _reduction(reduce: Instruction, position: int, target: TargetRecord) -> Cluster:
    data = reduce.operands[0]
    space = data.shape.dimensions
    reduced = reduce.attributes_as(Dimensions).dimensions
    ones = identity(space)
    kept = tuple([ones[i] for i in range(len(space)) if i not in reduced])
    reads = {data: ClusterRead(ones, data.shape.nbytes)}
    add_read(reads, reduce.operands[1], ClusterRead((), reduce.operands[1].shape.nbytes))
    return Cluster(
        KernelKind.REDUCTION,
        reduce,
        space,
        kept,
        kept,
        {reduce: None},
        reads,
        compute_seconds(reduce, target.machine),
        hero=reduce,
        position=position,
    )


def _contraction(hero: Instruction, position: int) -> Cluster:
    space = hero.shape.dimensions
    reads: dict[Instruction, ClusterRead] = {}
    for operand in hero.operands:
        add_read(reads, operand, ClusterRead(None, operand.shape.nbytes, inner=True))
    one = identity(space)
    return Cluster(
        KernelKind.CONTRACTION,
        hero,
        space,
        one,
        one,
        {hero: None},
        reads,
        0.0,
        hero,
        False,
        position,
    )


def _update(update: Instruction, position: int) -> Cluster:
    """What is written is read along it; of the array that is overwritten nothing is read."""
    written = update.operands[1 if update.opcode is Opcode.DYNAMIC_UPDATE_SLICE else 2]
    space = written.shape.dimensions
    one = identity(space)
    reads: dict[Instruction, ClusterRead] = {update.operands[0]: ClusterRead(None, 0, target=True)}
    for operand in update.operands[1:]:
        access = one if operand is written else () if not operand.shape.rank else None
        add_read(reads, operand, ClusterRead(access, operand.shape.nbytes))
    return Cluster(
        KernelKind.UPDATE,
        update,
        space,
        one,
        one,
        {update: None},
        reads,
        0.0,
        update,
        False,
        position,
    )


def add_read(
    reads: dict[Instruction, ClusterRead], operand: Instruction, read: ClusterRead
) -> None:
    """Note one more way in which a value is read; two different ones make a general one."""
    known = reads.get(operand)
    if known is None:
        reads[operand] = read
        return
    access = known.access if known.access == read.access else None
    nbytes = max(known.nbytes, read.nbytes)
    pieces, times = known.pieces + read.pieces, known.times + read.times
    if access is not None:
        pieces, times = max(known.pieces, read.pieces), max(known.times, read.times)
    is_target, is_inner = known.target or read.target, known.inner or read.inner
    reads[operand] = ClusterRead(access, nbytes, is_target, is_inner, pieces, times)


class Joint(NamedTuple):
    """The kernel of two clusters: kind and space, and how each one's accesses look from there.

    `producer` and `consumer` are the access of the joint space to the space of either; None where
    all accesses become general, and `inner` where they are made while an operand is packed.
    """

    kind: KernelKind
    space: tuple[int, ...]
    kept: tuple[int, ...]
    root_access: Access
    producer: Access
    consumer: Access
    inner: bool = False


def joined(producer: Cluster, consumer: Cluster, target: TargetRecord) -> Joint | FusionRefusal:
    """Return what kernel a cluster and one that reads it make, or why a target has none."""
    joint = _joint(producer, consumer, target)
    if isinstance(joint, Joint) and joint.kind not in target.kinds:
        return FusionRefusal(RefusalKind.TARGET)
    return joint


def _joint(producer: Cluster, consumer: Cluster, target: TargetRecord) -> Joint | FusionRefusal:
    read = consumer.inputs[producer.root]
    if read.target:
        return FusionRefusal(RefusalKind.OVERWRITTEN, by=consumer.root)
    members = len(producer.members) + len(consumer.members)
    if members > target.most_members:
        return FusionRefusal(RefusalKind.MEMBERS, members, target.most_members)
    most = len(producer.inputs) + len(consumer.inputs) - 1
    if most > target.most_arrays and _too_many_inputs(producer, consumer, target.most_arrays):
        return FusionRefusal(RefusalKind.ARRAYS, most, target.most_arrays)
    if producer.kind is KernelKind.LOOP:
        return _into_any(producer, consumer, read, target)
    if producer.kind is KernelKind.CONTRACTION:
        return _behind(producer, consumer, read)
    if producer.kind in (KernelKind.REDUCTION, KernelKind.ROWS):
        return _behind_rows(producer, consumer, read, target)
    return FusionRefusal(RefusalKind.UPDATE)


def _behind_rows(
    producer: Cluster, consumer: Cluster, read: ClusterRead, target: TargetRecord
) -> Joint | FusionRefusal:
    along = _in_rows(producer, consumer, read, target)
    if isinstance(along, Joint):
        return along
    behind = _behind(producer, consumer, read)
    # Where a loop reads in rows, that these are too long says more than that it is of another size.
    return along if isinstance(behind, FusionRefusal) else behind


def joined_by_all(
    producer: Cluster, readers: Iterable[Cluster], target: TargetRecord
) -> tuple[tuple[Cluster, Joint], ...] | FusionRefusal:
    """Return what kernels a cluster and each of its readers make, or why one reader makes none."""
    joints = []
    for reader in readers:
        joint = joined(producer, reader, target)
        if isinstance(joint, FusionRefusal):
            return joint
        joints.append((reader, joint))
    return tuple(joints)


def _too_many_inputs(producer: Cluster, consumer: Cluster, most: int) -> bool:
    if max(len(producer.inputs), len(consumer.inputs)) > most + 1:
        return True
    return len(producer.inputs.keys() | consumer.inputs.keys()) - 1 > most


def _into_any(
    producer: Cluster, consumer: Cluster, read: ClusterRead, target: TargetRecord
) -> Joint | FusionRefusal:
    """A loop can be computed wherever its values are read, unless that takes too long."""
    root = producer.root
    if read.inner and not producer.packable:
        return FusionRefusal(RefusalKind.PACKING, root.opcode.value, by=consumer.root)
    if root.opcode is Opcode.CONCATENATE and len(root.operands) > target.most_joined:
        return FusionRefusal(RefusalKind.BRANCHES, len(root.operands), target.most_joined)
    if consumer.kind is KernelKind.UPDATE and would_read_target(producer, consumer):
        return FusionRefusal(RefusalKind.READS_TARGET, by=consumer.root)
    made = _pieces_made(producer, consumer, read, target.most_pieces)
    if made > target.most_pieces:
        return FusionRefusal(RefusalKind.PIECES, made, target.most_pieces)
    return Joint(
        consumer.kind,
        consumer.space,
        consumer.kept,
        consumer.root_access,
        read.access,
        identity(consumer.space),
        read.inner,
    )


def _pieces_made(producer: Cluster, consumer: Cluster, read: ClusterRead, most: int) -> int:
    """How many pieces of code would compute one value: by what is known up to `most`, or counted.

    What is known is never less than what is counted. Of a cluster that is put together, what all of
    its members make is counted once.
    """
    known = consumer.pieces_with(producer, read.pieces)
    if known <= most:
        return known
    _, counted, consumer.most_pieces = consumer.count()
    if consumer.whole is not None:
        return consumer.most_pieces
    producer.most_pieces = producer.count().most_pieces
    root = producer.root
    if root in counted:
        read = consumer.inputs[root] = read._replace(pieces=counted[root].pieces)
    known = consumer.pieces_with(producer, read.pieces)
    if known <= most:
        return known
    both = consumer.members | producer.members
    return most_pieces(needs(both, consumer.root))


def _behind(producer: Cluster, consumer: Cluster, read: ClusterRead) -> Joint | FusionRefusal:
    """A loop over the result of a reduction or contraction, which may be written transposed."""
    result = producer.root.shape.dimensions
    if consumer.kind is not KernelKind.LOOP:
        return FusionRefusal(
            RefusalKind.NOT_A_LOOP, producer.kind.value, by=consumer.hero or consumer.root
        )
    back = inverse(read.access, consumer.space) if prod(consumer.space) == prod(result) else None
    if back is None or producer.root_access is None:
        return FusionRefusal(RefusalKind.OTHER_SPACE, producer.kind.value, by=consumer.root)
    placed = composed(producer.root_access, back)
    return Joint(
        producer.kind, producer.space, producer.kept, placed, identity(producer.space), placed
    )


def _in_rows(
    producer: Cluster, consumer: Cluster, read: ClusterRead, target: TargetRecord
) -> Joint | FusionRefusal:
    """What a reduction of each row yields is read along the same row."""
    if consumer.kind not in (KernelKind.LOOP, KernelKind.REDUCTION, KernelKind.ROWS):
        return FusionRefusal(
            RefusalKind.NOT_A_LOOP, producer.kind.value, by=consumer.hero or consumer.root
        )
    if consumer.space != producer.space or read.access != producer.root_access:
        return FusionRefusal(RefusalKind.OTHER_ROWS, by=consumer.root)
    if consumer.kind is not KernelKind.LOOP and consumer.kept != producer.kept:
        return FusionRefusal(RefusalKind.OTHER_ROWS, by=consumer.root)
    nbytes = row_bytes(producer)
    if nbytes is None or nbytes > target.most_row_bytes:
        kind = RefusalKind.OTHER_ROWS if nbytes is None else RefusalKind.LONG_ROWS
        return FusionRefusal(kind, nbytes or 0, target.most_row_bytes, consumer.root)
    one = identity(producer.space)
    return Joint(KernelKind.ROWS, producer.space, producer.kept, consumer.root_access, one, one)


def has_short_rows(cluster: Cluster, target: TargetRecord) -> bool:
    """Whether its reductions run along the last dimensions, and such a row fits the cache."""
    nbytes = row_bytes(cluster)
    return nbytes is not None and nbytes <= target.most_row_bytes


def row_bytes(cluster: Cluster) -> int | None:
    """Return the bytes of a row that is reduced, None where it is not of the last dimensions."""
    space = cluster.space
    kept = {d for d in cluster.kept if d >= 0}
    reduced = [i for i, size in enumerate(space) if size != 1 and i not in kept]
    if not reduced or any(d > reduced[0] for d in kept):
        return None
    width = max([x.shape.element_type.bits for x in cluster.inputs], default=32) // 8
    return prod([space[i] for i in reduced]) * max(1, width)


def would_read_target(producer: Cluster, update: Cluster) -> bool:
    """Whether an update with a loop that it reads would read what it may have overwritten."""
    hero = update.hero
    if hero is None:
        return False
    count = 1 if hero.opcode is not Opcode.SCATTER else len(hero.operands) // 2
    members = producer.members | update.members
    for number, target in enumerate(hero.operands[:count]):
        is_read = target in producer.inputs or hero.operands.count(target) > 1
        if is_read and reads_target_elsewhere(hero, number, {target: True}, (), members):
            return True
    return False
