"""A product of matrices that a kernel computes: its sizes, its tiles, and how they are finished.

`ffma.py` and `tensor_cores.py` write the sums of a tile. What makes the operands is computed where
they are loaded, what reads the product where it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.loops import product_type
from lowtide.codegen.elements.operands import Bound, bind, body_of, members
from lowtide.codegen.elements.outputs import KernelOutput, stored
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.table import has_rule, rule_of
from lowtide.codegen.elements.values import Element, Mask, Request, Rule
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.points import SUMS, groups_of_outputs
from lowtide.codegen.gpu.threads import block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dot
from lowtide.ir.launch import Launch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target


@dataclass(frozen=True, slots=True)
class TileSizes:
    """A tile of the product, `rows` x `columns`, which a block adds up in steps of `depth`."""

    rows: int
    columns: int
    depth: int
    threads: int


@dataclass(frozen=True, eq=False, slots=True)
class GpuProduct:
    """A dot as products of `rows` x `depth` and `depth` x `columns`, one for each batch index.

    Each tuple has the sizes of the dimensions that make one up. `outputs` have the dimensions of
    the dot.
    """

    instruction: Instruction
    target: Target
    dot: Instruction
    outputs: tuple[KernelOutput, ...]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]

    @property
    def total(self) -> ElementType:
        """The type in which products are added up."""
        return product_type(self.dot.shape.element_type)

    def operand_index(
        self, side: int, batch: Sequence[Affine], free: Sequence[Affine], depth: Sequence[Affine]
    ) -> Index:
        """Return the index of an element of the left operand (side 0), or of the right one."""
        numbers = self.dot.attributes_as(Dot).dimensions
        if side == 0:
            batched, contracted = numbers.lhs_batch, numbers.lhs_contracting
        else:
            batched, contracted = numbers.rhs_batch, numbers.rhs_contracting
        known = dict(zip((*batched, *contracted), (*batch, *depth), strict=True))
        rest = iter(free)
        rank = self.dot.operands[side].shape.rank
        return tuple([known[d] if d in known else next(rest) for d in range(rank)])

    def lies_along_depth(self, side: int) -> bool:
        """Return whether neighbours in the memory of an operand have neighbouring depths."""
        shape = self.dot.operands[side].shape
        numbers = self.dot.attributes_as(Dot).dimensions
        contracted = numbers.lhs_contracting if side == 0 else numbers.rhs_contracting
        steps = enumerate(strides(shape))
        return any(x == 1 and shape.dimensions[d] > 1 and d in contracted for d, x in steps)


def product_of(instruction: Instruction, target: Target) -> GpuProduct | None:
    """Return the product that an instruction is or has, None where it is not just one."""
    inner = members(instruction)
    sums = [x for x in inner if x.opcode in SUMS]
    if len(sums) != 1 or sums[0].opcode is not Opcode.DOT or not all(map(has_rule, inner)):
        return None
    (dot,) = sums
    if dot is not instruction and dot.parent is not body_of(instruction):
        return None
    groups = groups_of_outputs(instruction, target)
    if len(groups) != 1 or any(x.dimensions != dot.shape.dimensions for x in groups[0].outputs):
        return None
    numbers = dot.attributes_as(Dot).dimensions
    left, right = (x.shape.dimensions for x in dot.operands)
    paired = {*numbers.lhs_batch, *numbers.lhs_contracting}
    other = {*numbers.rhs_batch, *numbers.rhs_contracting}
    found = GpuProduct(
        instruction,
        target,
        dot,
        groups[0].outputs,
        tuple([left[d] for d in numbers.lhs_batch]),
        tuple([x for d, x in enumerate(left) if d not in paired]),
        tuple([x for d, x in enumerate(right) if d not in other]),
        tuple([left[d] for d in numbers.lhs_contracting]),
    )
    return found if _is_read_in_place(found) else None


def _is_read_in_place(product: GpuProduct) -> bool:
    """Whether the results at an index depend on the dot at that index only."""
    asked: list[Index] = []

    def noting(instruction: Instruction) -> ElementRule:
        def rule(elements: Elements, request: Request) -> Rule:
            asked.append(request.at)
            yield from ()
            type_ = request.instruction.shape.element_type
            names = ("poison", "poison") if type_.is_complex else ("poison",)
            return Element((Value(names, type_),), 0)

        return rule if instruction is product.dot else rule_of(instruction)

    fn = Function("trial")
    elements = thread_elements(fn, product.target, 0, noting)
    index = tuple([elements.indices.variable("%at", x) for x in product.dot.shape.dimensions])
    bound = bind(fn, product.instruction, buffer_names(product.instruction))
    stored(elements, product.outputs, bound, [index], None)
    return all(x == index for x in asked)


@dataclass(eq=False, slots=True)
class TileKernel:
    """The kernel of a product while it is written: a block makes a tile of one batch index.

    `row` and `column` are where the tile begins.
    """

    product: GpuProduct
    sizes: TileSizes
    lanes: int
    name: str = "product"
    fn: Function = field(init=False)
    elements: Elements = field(init=False)
    bound: Bound = field(init=False)
    thread: str = field(init=False)
    batch: list[Affine] = field(init=False)
    row: Integer = field(init=False)
    column: Integer = field(init=False)

    def __post_init__(self) -> None:
        """Begin the kernel: which tile it makes."""
        product, sizes = self.product, self.sizes
        self.fn = kernel_function(self.name, product.instruction, sizes.threads)
        self.elements = thread_elements(self.fn, product.target, self.lanes)
        names = buffer_names(product.instruction)
        self.bound = bind(self.fn, product.instruction, names)
        self.thread = thread_in_block(self.fn)
        down, across = self._tiles()
        block = block_number(self.fn)
        self.column = self.fn.mul(self.fn.rem(block, across), sizes.columns)
        rest = self.fn.div(block, across)
        self.row = self.fn.mul(self.fn.rem(rest, down), sizes.rows)
        self.batch = decomposed(self.elements, self.fn.div(rest, down), product.batch)

    def _tiles(self) -> tuple[int, int]:
        rows, columns = prod(self.product.rows), prod(self.product.columns)
        return -(-rows // self.sizes.rows), -(-columns // self.sizes.columns)

    @property
    def launch(self) -> Launch:
        """How the kernel is launched."""
        down, across = self._tiles()
        return Launch(self.name, down * across * prod(self.product.batch), self.sizes.threads)

    def operand(self, side: int, free: Integer, depth: Integer) -> tuple[Element, Mask | None]:
        """Return an element of an operand, and where there is one, None for everywhere.

        `free` is its row in the left one (side 0) or its column in the right one.
        """
        index, mask = self.operand_place(side, free, depth)
        operand = self.product.dot.operands[side]
        return self.elements.all_at(operand, index, self.bound.frame, mask), mask

    def operand_place(self, side: int, free: Integer, depth: Integer) -> tuple[Index, Mask | None]:
        """Return the index of an element of an operand, and where there is one."""
        product, elements = self.product, self.elements
        along = product.rows if side == 0 else product.columns
        tile = self.sizes.rows if side == 0 else self.sizes.columns
        mask = self._below(free, prod(along), tile)
        mask = elements.vectors.both(
            mask, self._below(depth, prod(product.depth), self.sizes.depth)
        )
        place = decomposed(elements, free, along)
        deep = decomposed(elements, depth, product.depth)
        return product.operand_index(side, self.batch, place, deep), mask

    def _below(self, number: Integer, size: int, tile: int) -> Mask | None:
        if size % tile == 0:
            return None
        level = self.elements.scopes.level
        return Mask(self.fn.compare("slt", number, size), 0, level)

    def summed(self, side: int, free: Integer, depth: Integer) -> str:
        """Return an element of an operand in the type of the sums, 0 where there is none."""
        found, mask = self.operand(side, free, depth)
        total = self.product.total
        value = converted(self.elements, found, total).values[0]
        if mask is None:
            return value.name
        return self.fn.select(mask.name, value.llvm_type, value.name, _zero(value.llvm_type))

    def finish(self, row: Integer, column: Integer, names: Sequence[str]) -> None:
        """Store what is made of sums side by side, as many as there are lanes."""
        fn, elements, product = self.fn, self.elements, self.product
        tests = [
            fn.compare("slt", place, size)
            for place, size, tile in (
                (row, prod(product.rows), self.sizes.rows),
                (column, prod(product.columns), self.sizes.columns),
            )
            if size % tile
        ]
        if not tests:
            with elements.scopes.inside():
                self._stored(row, column, names)
            return
        inside = tests[0] if len(tests) == 1 else fn.op(f"and i1 {tests[0]}, {tests[1]}")
        with elements.scopes.when(inside):
            self._stored(row, column, names)

    def _stored(self, row: Integer, column: Integer, names: Sequence[str]) -> None:
        fn, elements, product = self.fn, self.elements, self.product
        total = product.total
        value = Value((names[0],), total)
        if self.lanes:
            whole = "poison"
            kind = f"<{self.lanes} x {value.llvm_type}>"
            for lane, name in enumerate(names):
                whole = fn.op(f"insertelement {kind} {whole}, {value.llvm_type} {name}, i64 {lane}")
            value = Value((whole,), total, self.lanes)
        down = decomposed(elements, row, product.rows)
        if self.lanes:
            last = product.columns[-1]
            start, rest = fn.rem(column, last), fn.div(column, last)
            across = decomposed(elements, rest, product.columns[:-1])
            across.append(elements.indices.variable(start, last, is_lane=True))
        else:
            across = decomposed(elements, column, product.columns)
        index = (*self.batch, *down, *across)
        level = elements.scopes.level
        given = converted(elements, Element((value,), level), product.dot.shape.element_type)
        elements.given[product.dot] = lambda at, mask: given
        stored(elements, product.outputs, self.bound, [index], None)

    def done(self) -> str:
        """Return the constants that the kernel needs."""
        return "\n".join(self.elements.globals.values())


def lanes_of(product: GpuProduct, most: int) -> int:
    """Return how many columns of the product can be finished at once, 0 for one."""
    return most if product.columns and product.columns[-1] % most == 0 else 0


def _zero(type_: str) -> str:
    return "0.0" if type_ in ("float", "double") else "0"
