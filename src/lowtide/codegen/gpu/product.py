"""A product of matrices that a kernel computes: its sizes, its tiles, and how they are finished.

`ffma.py`, `tensor_cores.py` and `warpgroups.py` write the sums of a tile. What makes the operands
is computed where they are loaded, what reads the product where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from math import prod
from typing import Final, Protocol

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.loops import product_type
from lowtide.codegen.elements.operands import Bound, bind, body_of, members
from lowtide.codegen.elements.outputs import KernelOutput, stored
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.table import has_rule, rule_of
from lowtide.codegen.elements.values import Element, Mask, Request, Rule
from lowtide.codegen.gpu.convolution_layout import ConvolutionLayout
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.points import SUMS, PointGroup, groups_of_outputs
from lowtide.codegen.gpu.threads import block_number, thread_in_block, tile_of_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.space import decomposed, decomposed_lanes
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.dot_roles import DotRoles, dot_roles
from lowtide.records import dataclass

ENOUGH: Final = 128
"""Whole tiles, at least, for which large ones are made: one for each multiprocessor."""

_LEAST_STEPS: Final = 16
"""Steps along the depth that are worth a block of their own."""


@dataclass(frozen=True, slots=True)
class TileSizes:
    """A tile of the product, `rows` x `columns`, which a block adds up in steps of `depth`.

    A multiprocessor has registers for `blocks` at once, at least, and for `fewer` where operands or
    results are computed or lie in windows, which takes registers.
    """

    rows: int
    columns: int
    depth: int
    threads: int
    blocks: int
    fewer: int

    def width(self, side: int) -> int:
        """Return the rows of the tile of the left operand (side 0), or the columns of the right."""
        return self.columns if side else self.rows


@dataclass(frozen=True, eq=False, slots=True)
class GpuProduct:
    """A dot or convolution as products of `rows` x `depth` and `depth` x `columns` for each batch.

    Each tuple has the sizes of the dimensions that make one up; `hero` is the instruction. What it
    has of operands and result is in `layout`. `order` says for each dimension of the first of
    `outputs` which of the hero's it is, None for one of size 1.
    """

    instruction: Instruction
    target: Target
    hero: Instruction
    outputs: tuple[KernelOutput, ...]
    layout: ProductLayout
    order: tuple[int | None, ...]

    @property
    def total(self) -> ElementType:
        """The type in which products are added up."""
        return product_type(self.hero.shape.element_type)

    def free(self, side: int) -> tuple[int, ...]:
        """Return the sizes of what is not summed up of an operand: rows or columns."""
        return self.layout.columns if side else self.layout.rows

    @property
    def count(self) -> int:
        """How many products there are of rows, columns and depth."""
        layout = self.layout
        return prod((*layout.batch, *layout.rows, *layout.columns, *layout.depth))

    def sizes_among(self, choices: Sequence[TileSizes]) -> TileSizes:
        """Return the tiles that leave least of a tile unused, of those of which there are enough.

        The first of equal ones; where there are too few of each, the last choice, which is smaller.
        """
        enough = [x for x in choices[:-1] if self.tiles(x, whole=True) >= ENOUGH]
        areas = [self.tiles(x, whole=False) * x.rows * x.columns for x in enough]
        return enough[areas.index(min(areas))] if enough else choices[-1]

    def tiles(self, sizes: TileSizes, *, whole: bool) -> int:
        """Return how many whole tiles the product has, or how many it is made of."""
        layout = self.layout
        more = (0, 0) if whole else (sizes.rows - 1, sizes.columns - 1)
        down = (prod(layout.rows) + more[0]) // sizes.rows
        across = (prod(layout.columns) + more[1]) // sizes.columns
        return down * across * prod(layout.batch)

    def parts(self, sizes: TileSizes) -> int:
        """Return into how many parts the depth is divided, all equal, so that there are blocks.

        There are as many blocks as multiprocessors then, at most.
        """
        steps = -(-prod(self.layout.depth) // sizes.depth)
        most = min(ENOUGH // self.tiles(sizes, whole=False), steps // _LEAST_STEPS)
        return max([x for x in range(1, most + 1) if steps % x == 0], default=1)

    def scratch_bytes(self, parts: int) -> int:
        """Return the bytes of the sums of so many parts, where there are several."""
        layout = self.layout
        size = prod((*layout.batch, *layout.rows, *layout.columns))
        return parts * size * self.total.nbytes if parts > 1 else 0

    def lies_along_depth(self, side: int) -> bool:
        """Return whether neighbours in the memory of an operand have neighbouring depths."""
        shape = self.hero.operands[side].shape
        deep = self.layout.deep_dimensions(side)
        steps = enumerate(strides(shape))
        return any(x == 1 and shape.dimensions[d] > 1 and d in deep for d, x in steps)


class ProductLayout(Protocol):
    """Where the elements of a product lie in operands and result; sizes of its dimensions."""

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes of what numbers the products."""

    @property
    def rows(self) -> tuple[int, ...]:
        """The sizes of what makes a row."""

    @property
    def columns(self) -> tuple[int, ...]:
        """The sizes of what makes a column."""

    @property
    def depth(self) -> tuple[int, ...]:
        """The sizes of what is summed up."""

    def operand_index(
        self, elements: Elements, side: int, batch: Index, free: Index, depth: Index
    ) -> tuple[Index, Mask | None]:
        """Return where an element of the left operand (side 0) lies, or of the right one.

        With it, where there is one; elsewhere it counts as 0.
        """

    def result_index(self, batch: Index, row: Index, column: Index) -> Index:
        """Return where an element of the product lies in the result."""

    def deep_dimensions(self, side: int) -> tuple[int, ...]:
        """Return the dimensions of an operand that are summed up."""


@dataclass(frozen=True, slots=True)
class DotLayout:
    """The layout of a dot; see `ProductLayout`."""

    roles: tuple[DotRoles, DotRoles]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]

    @classmethod
    def of(cls, dot: Instruction) -> DotLayout:
        """Return the layout of a dot."""
        lhs, rhs = dot_roles(dot)
        left, right = (x.shape.dimensions for x in dot.operands)
        return cls(
            (lhs, rhs),
            tuple([left[d] for d in lhs.batch]),
            tuple([left[d] for d in lhs.free]),
            tuple([right[d] for d in rhs.free]),
            tuple([left[d] for d in lhs.contracted]),
        )

    def operand_index(
        self, elements: Elements, side: int, batch: Index, free: Index, depth: Index
    ) -> tuple[Index, Mask | None]:
        """Return where an element of an operand lies: there is one everywhere."""
        return tuple(self.roles[side].spread(batch, depth, free)), None

    def result_index(self, batch: Index, row: Index, column: Index) -> Index:
        """Return where an element of the product lies in the result."""
        return (*batch, *row, *column)

    def deep_dimensions(self, side: int) -> tuple[int, ...]:
        """Return the dimensions of an operand that are summed up."""
        return self.roles[side].contracted


def product_of(instruction: Instruction, target: Target) -> GpuProduct | None:
    """Return the product that an instruction is or has, None where it is not just one."""
    inner = members(instruction)
    sums = [x for x in inner if x.opcode in SUMS]
    if len(sums) != 1 or not all(map(has_rule, inner)):
        return None
    (hero,) = sums
    layout = _layout_of(hero)
    if layout is None or (hero is not instruction and hero.parent is not body_of(instruction)):
        return None
    groups = groups_of_outputs(instruction, target)
    if len(groups) != 1:
        return None
    order = _order_of(groups[0], hero)
    if order is None:
        return None
    return GpuProduct(instruction, target, hero, groups[0].outputs, layout, order)


def _layout_of(hero: Instruction) -> ProductLayout | None:
    if hero.opcode is Opcode.DOT:
        return DotLayout.of(hero)
    return ConvolutionLayout.of(hero) if hero.opcode is Opcode.CONVOLUTION else None


def _order_of(group: PointGroup, hero: Instruction) -> tuple[int | None, ...] | None:
    """Which dimension of the hero each of the results' is, None where they are made otherwise.

    The results at an index have to depend on the hero at that index only, its dimensions in any
    order.
    """
    asked: list[Index] = []

    def noting(instruction: Instruction) -> ElementRule:
        def rule(elements: Elements, request: Request) -> Rule:
            asked.append(request.at)
            yield from ()
            type_ = request.instruction.shape.element_type
            names = ("poison", "poison") if type_.is_complex else ("poison",)
            return Element((Value(names, type_),), 0)

        return rule if instruction is hero else rule_of(instruction)

    fn = Function("trial")
    elements = thread_elements(fn, group.target, 0, noting)
    sizes = group.outputs[0].dimensions
    index = tuple([elements.indices.variable("%at", x) for x in sizes])
    bound = bind(fn, group.instruction, buffer_names(group.instruction))
    stored(elements, group.outputs, bound, [index], None)
    if len(set(asked)) != 1 or prod(sizes) != hero.shape.element_count:
        return None
    places = [
        x if size != 1 else None for x, size in zip(asked[0], hero.shape.dimensions, strict=True)
    ]
    wanted = [x if size != 1 else None for x, size in zip(index, sizes, strict=True)]
    if {x for x in places if x is not None} != {x for x in wanted if x is not None}:
        return None
    return tuple([None if x is None else places.index(x) for x in wanted])


@dataclass(eq=False, slots=True)
class TileKernel:
    """The kernel of a product while it is written: a block makes a tile of one batch index.

    `row` and `column` are where the tile begins. Blocks with numbers side by side make tiles below
    each other, `group` of them, then the next column of as many: they share what caches hold.
    Of a depth in `parts` a block takes one, and its sums go to scratch; `part` is its number, and
    `begin` where it begins.
    """

    product: GpuProduct
    sizes: TileSizes
    lanes: int
    name: str = "product"
    group: int = 1
    parts: int = 1
    fn: Function = field(init=False)
    elements: Elements = field(init=False)
    bound: Bound = field(init=False)
    thread: str = field(init=False)
    block: str = field(init=False)
    number: Integer = field(init=False)
    batch: list[Affine] = field(init=False)
    row: Integer = field(init=False)
    column: Integer = field(init=False)
    part: Integer = field(init=False)
    begin: Integer = field(init=False)

    def __post_init__(self) -> None:
        """Begin the kernel: which tile it makes."""
        product, sizes = self.product, self.sizes
        is_bare = product.instruction is product.hero and isinstance(product.layout, DotLayout)
        blocks = sizes.blocks if is_bare else sizes.fewer
        self.fn = kernel_function(self.name, product.instruction, sizes.threads, blocks)
        self.elements = thread_elements(self.fn, product.target, self.lanes)
        names = buffer_names(product.instruction)
        self.bound = bind(self.fn, product.instruction, names)
        self.thread = thread_in_block(self.fn)
        self.block = block_number(self.fn)
        self.take(self.block)

    def take(self, tile: Integer) -> None:
        """Take the tile of a number: write where it begins."""
        fn, (down, across) = self.fn, self._tiles()
        row, column = tile_of_block(fn, fn.rem(tile, down * across), (down, across), self.group)
        self.row = fn.mul(row, self.sizes.rows)
        self.column = fn.mul(column, self.sizes.columns)
        batch = self.product.layout.batch
        number, batches = fn.div(tile, down * across), prod(batch)
        self.part = fn.div(number, batches) if self.parts > 1 else 0
        self.begin = fn.mul(self.part, self.depth)
        self.number = fn.rem(number, batches) if self.parts > 1 else number
        self.batch = decomposed(self.elements, self.number, batch)

    @property
    def depth(self) -> int:
        """How much of the depth a block adds up, past the end of which there is nothing."""
        whole, step = prod(self.product.layout.depth), self.sizes.depth
        return whole if self.parts == 1 else -(-whole // step) // self.parts * step

    def _tiles(self) -> tuple[int, int]:
        rows, columns = prod(self.product.layout.rows), prod(self.product.layout.columns)
        return -(-rows // self.sizes.rows), -(-columns // self.sizes.columns)

    @property
    def launch(self) -> GridLaunch:
        """How the kernel is launched."""
        down, across = self._tiles()
        return GridLaunch(
            self.name,
            down * across * prod(self.product.layout.batch) * self.parts,
            self.sizes.threads,
        )

    def finish(self, row: Integer, column: Integer, names: Sequence[str]) -> None:
        """Store what is made of sums side by side: at once where there are lanes, else each."""
        for number, several in enumerate([names] if self.lanes else [[x] for x in names]):
            place = self.fn.add(column, number)
            with self.inside(row, place):
                self.store(row, place, several)

    @contextmanager
    def inside(self, row: Integer, column: Integer) -> Iterator[None]:
        """Write what runs only where the product has an element at a row and a column."""
        fn, scopes, layout = self.fn, self.elements.scopes, self.product.layout
        tests = [
            fn.compare("slt", place, size)
            for place, size, tile in (
                (row, prod(layout.rows), self.sizes.rows),
                (column, prod(layout.columns), self.sizes.columns),
            )
            if size % tile
        ]
        if not tests:
            with scopes.inside():
                yield
            return
        is_there = tests[0] if len(tests) == 1 else fn.op(f"and i1 {tests[0]}, {tests[1]}")
        with scopes.when(is_there):
            yield

    def place_of_sum(self, part: Integer, row: Integer, column: Integer) -> str:
        """Return the address in scratch of a sum of a part."""
        fn, layout = self.fn, self.product.layout
        place = fn.add(fn.mul(part, prod(layout.batch)), self.number)
        for size, within in ((prod(layout.rows), row), (prod(layout.columns), column)):
            place = fn.add(fn.mul(place, size), within)
        return fn.gep("%scratch", place, register_type(self.product.total))

    def store(self, row: Integer, column: Integer, names: Sequence[str]) -> None:
        """Store what is made of sums side by side that are there; those of a part as they are."""
        fn, elements, product = self.fn, self.elements, self.product
        total, layout = product.total, product.layout
        value = Value((names[0],), total)
        if self.lanes:
            whole = "poison"
            kind = f"<{self.lanes} x {value.llvm_type}>"
            for lane, name in enumerate(names):
                whole = fn.op(f"insertelement {kind} {whole}, {value.llvm_type} {name}, i64 {lane}")
            value = Value((whole,), total, self.lanes)
        if self.parts > 1:
            align = total.nbytes * max(self.lanes, 1)
            fn.store(value.llvm_type, value.name, self.place_of_sum(self.part, row, column), align)
            return
        down = decomposed(elements, row, layout.rows)
        across = decomposed_lanes(elements, column, layout.columns, has_lanes=bool(self.lanes))
        index = layout.result_index(tuple(self.batch), tuple(down), tuple(across))
        level = elements.scopes.level
        given = converted(elements, Element((value,), level), product.hero.shape.element_type)
        elements.given[product.hero] = lambda at, mask: given
        at = tuple([ZERO if x is None else index[x] for x in product.order])
        stored(elements, product.outputs, self.bound, [at], None)

    def done(self) -> str:
        """Return the constants that the kernel needs."""
        return "\n".join(self.elements.globals.values())


def lanes_of(product: GpuProduct, most: int) -> int:
    """Return how many columns of the product can be finished at once, 0 for one."""
    return most if product.layout.columns and product.layout.columns[-1] % most == 0 else 0
