"""A module at another size: some dimensions of its arguments, and all that grow with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.fitting.arrays import ModuleArrays, arrays_of_entry
from lowtide.fitting.dimensions import NamedLeaf, SpecializedError, module_leaves
from lowtide.fitting.made_sizes import grown_attributes
from lowtide.fitting.scales import Place, Sizing, scaled_sizes
from lowtide.fitting.unsharing import unshared
from lowtide.ir import Instruction, InvalidModuleError, Module, Opcode, Shape, array_shape
from lowtide.ir.attributes import Attributes, Constant
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.literal import zero_literal
from lowtide.ir.shape import ProgramShape
from lowtide.ir.traversal import post_order
from lowtide.verifier import verify

Leaf = tuple[int, int, int]
"""A parameter's number, one of its leaves, and a dimension of that."""


class ResizableModule:
    """A module that can be had at other sizes of some dimensions, which are of one size now."""

    def __init__(self, module: Module, dimensions: Sequence[Leaf]) -> None:
        self.module = module
        self._own = unshared(module)
        self.places = [
            (self._array((number, leaf)), dimension) for number, leaf, dimension in dimensions
        ]
        array, dimension = self.places[0]
        self.size = self.arrays.shapes[array].dimensions[dimension]
        """The size that the dimensions have in the module as given."""

    @cached_property
    def arrays(self) -> ModuleArrays:
        """The arrays of the module, of which each reader has those of its own that scalars fill."""
        return arrays_of_entry(self._own.entry)

    @cached_property
    def _sizing(self) -> Sizing:
        return Sizing(self.arrays)

    @cached_property
    def step(self) -> int:
        """The number that all sizes are multiples of: other ones would leave parts of elements."""
        scales = self._scales(2 * self.size)
        sizes = [
            self.arrays.shapes[a].dimensions[d] for (a, d), scale in scales.items() if scale == 2
        ]
        return self.size // gcd(self.size, *sizes)

    def at(self, size: int) -> Module:
        """Return a copy of the module at a size.

        Constants that grow are zeros. Raises SpecializedError where the program holds for the size
        that it was made for only.
        """
        if size == self.size:
            return clone_module(self.module)
        scales = self._scales(size)
        self._check_loops(scales)
        mapping = CloneMap()
        copy = clone_module(self._own, mapping)
        for x, made in mapping.instructions.items():
            if x in self.arrays.numbers:
                self._resize(x, made, scales)
        layout = copy.entry_layout
        if layout is not None:
            copy.entry_layout = _entry_layout(layout, copy)
        try:
            verify(copy)
        except InvalidModuleError as error:
            raise SpecializedError(f"at {size} it would be wrong: {error}", None) from None
        return copy

    def grown_axes(self) -> list[tuple[NamedLeaf, int]]:
        """Return the axes of arguments that grow with the size.

        Raises SpecializedError where the program holds for its own size only.
        """
        scales = self._scales(2 * self.size)
        return [
            (leaf, dimension)
            for leaf in module_leaves(self._own)
            for dimension in range(len(leaf.sizes))
            if (self._array(leaf.key), dimension) in scales
        ]

    def _array(self, key: Sequence[int]) -> int:
        number, leaf = key
        return self.arrays.of(self._own.entry.parameters[number])[leaf]

    def _scales(self, size: int) -> dict[Place, Fraction]:
        scale = Fraction(size, self.size)
        return self._sizing.scales(dict.fromkeys(self.places, scale))

    def _resize(self, x: Instruction, made: Instruction, scales: Mapping[Place, Fraction]) -> None:
        leaves = iter(
            [
                _resized(self.arrays.shapes[a], scaled_sizes(self.arrays.shapes[a], a, scales))
                for a in self.arrays.of(x)
            ]
        )
        shape = x.shape.with_leaves(lambda leaf: _like(leaf, next(leaves)))
        operands = [scaled_sizes(self.arrays.shapes[a], a, scales) for a in self.arrays.operands(x)]
        changed = _attributes(x, shape, operands)
        if changed is not x.attributes:
            made.set_attributes(changed)
        if shape is not x.shape:
            made.set_shape(shape)

    def _check_loops(self, scales: Mapping[Place, Fraction]) -> None:
        """Raise SpecializedError where a loop runs once per element of what grows."""
        for x in self.arrays.numbers:
            found = trip_count(x) if x.opcode is Opcode.WHILE else None
            if found is None:
                continue
            for y in post_order(x.called_computations[1]):
                if y.opcode in _STEPPING and self._steps_along(y, found.count, scales):
                    raise SpecializedError(
                        f"the loop runs {found.count} times, once per element", x
                    )

    def _steps_along(self, y: Instruction, count: int, scales: Mapping[Place, Fraction]) -> bool:
        """Whether an operation takes one of `count` elements along a dimension that grows."""
        array = self.arrays.of(y.operands[0])[0]
        part = y if y.opcode is Opcode.DYNAMIC_SLICE else y.operands[1]
        sizes = zip(y.operands[0].shape.dimensions, part.shape.dimensions, strict=True)
        return any(
            (whole, taken) == (count, 1) and (array, dimension) in scales
            for dimension, (whole, taken) in enumerate(sizes)
        )


_STEPPING: Final = (Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE)


def _resized(shape: Shape, sizes: tuple[int, ...]) -> Shape:
    if not shape.is_array or sizes == shape.dimensions:
        return shape
    return array_shape(shape.element_type, sizes, shape.layout, shape.dynamic)


def _like(leaf: Shape, resized: Shape) -> Shape:
    """The leaf of an instruction at the sizes of its array, whose layout may be another one."""
    return _resized(leaf, resized.dimensions) if leaf.is_array else leaf


def _entry_layout(layout: ProgramShape, module: Module) -> ProgramShape:
    """The header of a module at the sizes of its entry, with the layouts that it had."""

    def renewed(old: Shape, new: Shape) -> Shape:
        leaves = iter([leaf for _, leaf in new.leaves()])
        return old.with_leaves(lambda leaf: _like(leaf, next(leaves)))

    given = zip(layout.parameters, module.entry.parameters, strict=True)
    parameters = tuple([renewed(old, x.shape) for old, x in given])
    return replace(
        layout, parameters=parameters, result=renewed(layout.result, module.entry.root.shape)
    )


def _attributes(x: Instruction, shape: Shape, operands: Sequence[tuple[int, ...]]) -> Attributes:
    """The attributes of an instruction whose result and operands have other sizes."""
    if shape is x.shape and operands == _sizes(x):
        return x.attributes
    if isinstance(x.attributes, Constant):
        return replace(x.attributes, literal=zero_literal(shape))
    return grown_attributes(x, operands, shape.dimensions if shape.is_array else ())


def _sizes(x: Instruction) -> list[tuple[int, ...]]:
    return [
        leaf.dimensions if leaf.is_array else ()
        for operand in x.operands
        for _, leaf in operand.shape.leaves()
    ]
