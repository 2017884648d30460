"""Writing the program of one device: operations, its position on the grid, resharding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Final, final

import numpy as np

from lowtide.ir import (
    NO_ANNOTATIONS,
    NO_ATTRIBUTES,
    Attributes,
    Computation,
    ElementType,
    Instruction,
    Literal,
    Module,
    Opcode,
    Shape,
    array_shape,
)
from lowtide.ir.attributes import (
    Collective,
    CollectivePermute,
    Compare,
    Constant,
    Dimensions,
    DynamicSlice,
    Parameter,
    Reshape,
    default_comparison,
)
from lowtide.ir.clone import CloneMap, clone_computation
from lowtide.ir.literal import DTYPES
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.infer import infer_shape
from lowtide.passes.matching import identity_of
from lowtide.records import dataclass
from lowtide.spmd.resharding import ReshardingKind, ReshardingStep, WholeArray


@dataclass(slots=True)
class DeviceProgram:
    """The module that is written: its grid, its channels and the computations made so far."""

    module: Module
    grid: DeviceGrid
    clones: CloneMap = field(default_factory=CloneMap)
    channels: int = 0
    reducers: dict[tuple[Opcode, ElementType], Computation] = field(default_factory=dict)

    def channel(self) -> int:
        """Return a channel that no collective has yet."""
        self.channels += 1
        return self.channels

    def copy_of(self, computation: Computation) -> Computation:
        """Return the copy of a reducer or comparator, one for all that call it."""
        return clone_computation(computation, self.module, mapping=self.clones)

    def reducer(self, opcode: Opcode, element_type: ElementType) -> Computation:
        """Return the computation that reduces two scalars by an operation."""
        found = self.reducers.get((opcode, element_type))
        if found is None:
            name = f"{opcode.value}_{element_type.value}_terms"
            found = self.module.add_computation(name)
            scalar = array_shape(element_type, ())
            pair = [found.add(Opcode.PARAMETER, scalar, (), Parameter(i)) for i in range(2)]
            found.root = found.add(opcode, scalar, tuple(pair))
            self.reducers[opcode, element_type] = found
        return found


@final
class Emitter:
    """Adds operations to one computation of the target; equal small ones are made once."""

    def __init__(self, target: DeviceProgram, computation: Computation) -> None:
        self.target = target
        self.grid = target.grid
        self.computation = computation
        self._known: dict[object, Instruction] = {}
        self.origin: Instruction | None = None
        """The instruction of the whole program that is being written; metadata come from it."""

    # -- operations ----------------------------------------------------------------------------

    def add(
        self,
        opcode: Opcode,
        operands: Sequence[Instruction] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """Add an operation; without `shape` it is inferred."""
        if shape is None:
            shape = infer_shape(
                opcode, [x.shape for x in operands], attributes, [c.program_shape for c in called]
            )
        origin = self.origin
        name = None if origin is None or origin.opcode is not opcode else origin.name
        made = self.computation.add(opcode, shape, tuple(operands), attributes, tuple(called), name)
        if origin is not None:
            made.set_metadata(origin.raw_metadata)
        return made

    def like(
        self,
        x: Instruction,
        operands: Sequence[Instruction],
        shape: Shape,
        attributes: Attributes | None = None,
    ) -> Instruction:
        """Add an operation that does to `operands` what `x` does to whole arrays."""
        called = [self.target.copy_of(c) for c in x.called_computations]
        given = x.attributes if attributes is None else attributes
        made = self.add(x.opcode, operands, given, called, shape)
        if x.annotations is not NO_ANNOTATIONS:
            kept = tuple([a for a in x.annotations.frontend_attributes if "sdy" not in a[0]])
            annotations = replace(x.annotations, sharding=None, frontend_attributes=kept)
            if annotations != NO_ANNOTATIONS:
                made.set_annotations(annotations)
        return made

    def once(self, key: object, make: Callable[[], Instruction]) -> Instruction:
        """Return what was made under this key, or make it."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found

    def constant(self, value: Any) -> Instruction:
        """Return a scalar constant."""
        array = np.asarray(value)
        element_type = next(t for t, dtype in DTYPES.items() if dtype == array.dtype)
        shape = array_shape(element_type, ())

        def make() -> Instruction:
            return self.add(Opcode.CONSTANT, (), Constant(Literal(shape, array)), (), shape)

        return self.once(("constant", element_type, array.tobytes()), make)

    def number(self, value: int) -> Instruction:
        """Return a constant of s32."""
        return self.constant(np.int32(value))

    def broadcast(self, scalar: Instruction, sizes: Sequence[int]) -> Instruction:
        """Return an array of equal elements."""
        shape = array_shape(scalar.shape.element_type, tuple(sizes))
        if not sizes:
            return scalar

        def make() -> Instruction:
            return self.add(Opcode.BROADCAST, (scalar,), Dimensions(()), (), shape)

        return self.once(("broadcast", scalar, shape), make)

    def convert(self, x: Instruction, element_type: ElementType) -> Instruction:
        """Return the numbers in another type."""
        if x.shape.element_type is element_type:
            return x
        shape = array_shape(element_type, x.shape.dimensions)
        return self.add(Opcode.CONVERT, (x,), shape=shape)

    def compare(self, a: Instruction, b: Instruction, direction: str) -> Instruction:
        """Return where a comparison of integers holds."""
        kind = default_comparison(a.shape.element_type)
        return self.add(Opcode.COMPARE, (a, b), Compare(direction, kind))

    def reshape(self, x: Instruction, sizes: Sequence[int]) -> Instruction:
        """Return the elements in another shape."""
        shape = array_shape(x.shape.element_type, tuple(sizes))
        return x if shape is x.shape else self.add(Opcode.RESHAPE, (x,), Reshape(), (), shape)

    # -- the device ----------------------------------------------------------------------------

    def position(self, axes: Sequence[int]) -> Instruction:
        """Return the place of the device along axes, the first one major, as s32."""
        return self.once(("position", tuple(axes)), lambda: self._position(tuple(axes)))

    def _position(self, axes: tuple[int, ...]) -> Instruction:
        if not axes:
            return self.number(0)
        first = 0
        while first + 1 < len(axes) and axes[first + 1] == axes[first] + 1:
            first += 1
        run, rest = axes[: first + 1], axes[first + 1 :]
        place = self._digit(self.grid.stride(run[-1]), self.grid.extent(run))
        if rest:
            major = self.add(Opcode.MULTIPLY, (place, self.number(self.grid.extent(rest))))
            place = self.add(Opcode.ADD, (major, self.position(rest)))
        return place

    def _digit(self, stride: int, size: int) -> Instruction:
        place = self.device()
        if stride > 1:
            place = self.add(Opcode.DIVIDE, (place, self.number(stride)))
        if stride * size < self.grid.count:
            place = self.add(Opcode.REMAINDER, (place, self.number(size)))
        return place

    def device(self) -> Instruction:
        """Return the number of the device, as s32."""
        return self.once(
            ("device",), lambda: self.convert(self.add(Opcode.PARTITION_ID), ElementType.S32)
        )

    def offset(self, axes: Sequence[int], length: int) -> Instruction:
        """Return where the tile of the device starts along a dimension, as s32."""
        key = ("offset", tuple(axes), length)
        return self.once(
            key, lambda: self.add(Opcode.MULTIPLY, (self.position(axes), self.number(length)))
        )

    def is_first(self, axes: Sequence[int]) -> Instruction:
        """Return whether the device is the first one along axes."""
        key = ("first", tuple(axes))
        return self.once(key, lambda: self.compare(self.position(axes), self.number(0), "EQ"))

    # -- resharding ----------------------------------------------------------------------------

    def reshard(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return an array moved by one step from the tiling `before`."""
        return _STEPS[step.kind](self, x, array, before, step)

    def _groups(self, axes: tuple[int, ...], dimension: int | None, *, by_id: bool) -> Collective:
        return Collective(
            self.grid.groups(axes), self.target.channel(), dimension, use_global_device_ids=by_id
        )

    def slice_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the own part along a dimension."""
        sizes = list(x.shape.dimensions)
        k = step.dimension
        sizes[k] //= self.grid.extent(step.axes)
        if x.opcode is Opcode.BROADCAST and not x.operands[0].shape.rank:
            return self.broadcast(x.operands[0], sizes)
        zero = self.number(0)
        starts = [zero] * len(sizes)
        starts[k] = self.offset(step.axes, sizes[k])
        return self.add(Opcode.DYNAMIC_SLICE, (x, *starts), DynamicSlice(tuple(sizes)))

    def mask_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the array on the first device along the axes, the identity on the others."""
        return self.masked(x, step.axes, step.result.reduction)

    def masked(self, x: Instruction, axes: Sequence[int], reduction: Opcode) -> Instruction:
        """Return an array on the first device along axes, the identity on the others."""
        identity = identity_of(reduction, x.shape.element_type)
        if is_splat(x, identity):
            return x
        neutral = self.broadcast(self.constant(identity), x.shape.dimensions)
        first = self.broadcast(self.is_first(axes), x.shape.dimensions)
        return self.add(Opcode.SELECT, (first, x, neutral))

    def reduce_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the sum of the terms of all devices along the axes."""
        reducer = self.target.reducer(before.reduction, x.shape.element_type)
        groups = self._groups(step.axes, None, by_id=True)
        return self.add(Opcode.ALL_REDUCE, (x,), groups, (reducer,), x.shape)

    def scatter_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the own part of the sum of all terms."""
        reducer = self.target.reducer(before.reduction, x.shape.element_type)
        groups = self._groups(step.axes, step.dimension, by_id=True)
        shape = _resized(x.shape, step.dimension, 1, self.grid.extent(step.axes))
        return self.add(Opcode.REDUCE_SCATTER, (x,), groups, (reducer,), shape)

    def gather_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the parts of all devices along the axes."""
        return self.gathered(x, step.axes, step.dimension)

    def gathered(self, x: Instruction, axes: tuple[int, ...], dimension: int) -> Instruction:
        """Return what all devices along axes have, joined along a dimension."""
        groups = self._groups(axes, dimension, by_id=True)
        shape = _resized(x.shape, dimension, self.grid.extent(axes), 1)
        return self.add(Opcode.ALL_GATHER, (x,), groups, (), shape)

    def deal_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the array with its axes moved from the source to the dimension."""
        to, source, g = step.dimension, step.source, self.grid.extent(step.axes)
        sizes = x.shape.dimensions
        cut = [*sizes[:to], g, sizes[to] // g, *sizes[to + 1 :]]
        dealt = self.add(
            Opcode.ALL_TO_ALL, (self.reshape(x, cut),), self._groups(step.axes, to, by_id=False)
        )
        # The pieces of the devices stand along dimension `to`, where the source has to have them.
        order = [i for i in range(len(cut)) if i != to]
        order.insert(source, to)
        moved = self.add(Opcode.TRANSPOSE, (dealt,), Dimensions(tuple(order)))
        joined = list(sizes)
        joined[to] //= g
        joined[source] *= g
        return self.reshape(moved, joined)

    def permute_step(
        self, x: Instruction, array: WholeArray, before: Tiling, step: ReshardingStep
    ) -> Instruction:
        """Return the tile of another device."""
        return self.exchanged(x, permutation(self.grid, array.sizes, before, step.result))

    def exchanged(self, x: Instruction, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """Return what another device has, for all pairs (that device, this one)."""
        attributes = CollectivePermute(tuple(pairs), self.target.channel())
        return self.add(Opcode.COLLECTIVE_PERMUTE, (x,), attributes, (), x.shape)


_Step = Callable[[Emitter, Instruction, WholeArray, Tiling, ReshardingStep], Instruction]

_STEPS: Final[dict[ReshardingKind, _Step]] = {
    ReshardingKind.SLICE: Emitter.slice_step,
    ReshardingKind.MASK: Emitter.mask_step,
    ReshardingKind.ALL_REDUCE: Emitter.reduce_step,
    ReshardingKind.REDUCE_SCATTER: Emitter.scatter_step,
    ReshardingKind.ALL_GATHER: Emitter.gather_step,
    ReshardingKind.ALL_TO_ALL: Emitter.deal_step,
    ReshardingKind.PERMUTE: Emitter.permute_step,
}


def permutation(
    grid: DeviceGrid, sizes: Sequence[int], before: Tiling, after: Tiling
) -> tuple[tuple[int, int], ...]:
    """Return (source, target) for each device, so that it gets the tile that it is to have."""
    holders: dict[tuple[int, ...], list[int]] = {}
    for device in range(grid.count):
        holders.setdefault(before.start(grid, sizes, device), []).append(device)
    pairs = []
    wanting: dict[tuple[int, ...], list[int]] = {}
    for device in range(grid.count):
        wanting.setdefault(after.start(grid, sizes, device), []).append(device)
    for tile, targets in wanting.items():
        sources = holders[tile]
        staying = [device for device in targets if device in sources]
        rest = [device for device in sources if device not in staying]
        others = [device for device in targets if device not in staying]
        pairs += [(device, device) for device in staying]
        pairs += zip(rest, others, strict=True)
    return tuple(sorted(pairs))


def is_splat(x: Instruction, value: Any) -> bool:
    """Whether all elements of an array are known to be the given number."""
    while x.opcode in (Opcode.BROADCAST, Opcode.RESHAPE, Opcode.COPY):
        x = x.operands[0]
    if x.opcode is not Opcode.CONSTANT:
        return False
    array = np.asarray(x.attributes_as(Constant).literal.value)
    if array.dtype == np.asarray(value).dtype and array.size:
        return bool(np.all(array == np.asarray(value)))
    return False


def _resized(shape: Shape, dimension: int, times: int, by: int) -> Shape:
    sizes = list(shape.dimensions)
    sizes[dimension] = sizes[dimension] * times // by
    return array_shape(shape.element_type, tuple(sizes))
