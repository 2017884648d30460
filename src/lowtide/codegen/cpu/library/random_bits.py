"""Random bits from counters: rng-bit-generator, bit for bit as it is defined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.ciphers import philox, threefry
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Shape
from lowtide.ir.attributes import RngBitGenerator
from lowtide.ir.errors import unsupported
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

COUNTERS: Final = 2048
"""Counters of a piece of work, a multiple of every number of lanes."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Counters are numbered along `rows` rows of `row`; each makes `words` elements.

    They follow one another where `apart` is 1. Else the result has, for each row, `words` rows of
    `apart` elements, of which `cut`, the last of each `period` rows of counters, has one less.
    """

    type: ElementType
    is_threefry: bool
    words: int
    rows: int
    row: int
    apart: int
    period: int
    elements: int
    odd: bool
    state: int
    has_state: bool
    piece: int = COUNTERS

    @property
    def counters(self) -> int:
        return self.rows * self.row

    @property
    def pieces(self) -> int:
        return -(-self.row // self.piece)


def plan_random_bits(
    instruction: Instruction, target: Target, piece: int = COUNTERS
) -> KernelPlan | None:
    """Return the plan of an rng-bit-generator; the result may be (next state, bits), or bits.

    A piece of work has `piece` counters, a multiple of the number of lanes.
    """
    form = replace(_form_of(instruction), piece=piece)
    return KernelPlan(lambda: _Writer(form, target).write())


def _form_of(instruction: Instruction) -> _Form:
    is_threefry = instruction.attributes_as(RngBitGenerator).algorithm == "rng_three_fry"
    given = instruction.operands[0].shape
    has_state = instruction.shape.is_tuple
    shape = instruction.shape.tuple_shapes[1] if has_state else instruction.shape
    _check(instruction, given, shape, is_threefry)
    is_wide = shape.element_type.bits == 64
    count = shape.element_count
    if is_threefry and not is_wide and shape.dimensions:
        return _by_halves(shape, given.dimensions[0], has_state)
    words = (1 if is_wide else 2) if is_threefry else (2 if is_wide else 4)
    row = -(-count // words)
    return _Form(
        shape.element_type,
        is_threefry,
        words,
        rows=1,
        row=row,
        apart=1,
        period=1,
        elements=count,
        odd=False,
        state=given.dimensions[0],
        has_state=has_state,
    )


def _check(instruction: Instruction, given: Shape, shape: Shape, is_threefry: bool) -> None:
    """Raise UnsupportedOpError for states and results that are not defined."""
    lengths = (2,) if is_threefry else (2, 3)
    is_state = given.element_type is ElementType.U64 and given.rank == 1
    if not is_state or given.dimensions[0] not in lengths:
        sizes = " or ".join([f"u64[{n}]" for n in lengths])
        raise unsupported(instruction, f"it takes a state {sizes}, not {given}")
    if shape.element_type is ElementType.PRED or shape.element_type.is_complex:
        reason = f"makes integers and real numbers, not {shape.element_type.value}"
        raise unsupported(instruction, reason)


def _by_halves(shape: Shape, state: int, has_state: bool) -> _Form:
    """Threefry's two words go to neighbours along the first even, or else longest, dimension."""
    sizes = shape.dimensions
    even = [d for d, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else sizes.index(max(sizes))
    half = (sizes[axis] + 1) // 2
    before, behind = prod(sizes[:axis]), prod(sizes[axis + 1 :])
    odd = bool(sizes[axis] % 2)
    if behind == 1 and not odd:
        before, half = 1, before * half
    rows, row = (before, half) if behind == 1 else (before * half, behind)
    elements = sizes[axis] if behind == 1 and odd else 2 * row
    return _Form(
        shape.element_type,
        True,
        2,
        rows=rows,
        row=row,
        apart=behind,
        period=half if behind > 1 else 1,
        elements=elements,
        odd=odd,
        state=state,
        has_state=has_state,
    )


class _Writer:
    """Writes the phases: bits, then the next state, which may lie where the state does."""

    def __init__(self, form: _Form, target: Target) -> None:
        self.form = form
        self.target = target
        self.lanes = target.vector_bytes // 4
        self.fn = Function("bits", ARGUMENTS)

    def write(self) -> KernelCode:
        form, fn = self.form, self.fn
        state = fn.load("ptr", "%buffers", 8)
        number = 2 if form.has_state else 1
        result = fn.load("ptr", fn.gep("%buffers", number, "ptr"), 8)
        functions, phases = [], []
        if form.counters:
            self._pieces(self._state(fn, state), result)
            each = min(form.row, form.piece) * seconds(8, 60 / self.lanes)
            phases.append(Phase("bits", form.rows * form.pieces, each))
            functions.append(fn)
        if form.has_state:
            functions.append(self._next_state())
            phases.append(Phase("next_state", 1, 1e-8))
        return KernelCode(tuple(functions), tuple(phases))

    def _state(self, fn: Function, state: str) -> list[str]:
        """The key, and the low and the high half of the counter."""
        key, low = (fn.load("i64", fn.gep(state, i, "i64"), 8) for i in range(2))
        high = fn.load("i64", fn.gep(state, 2, "i64"), 8) if self.form.state == 3 else key
        return [key, low, high]

    def _next_state(self) -> Function:
        form = self.form
        fn = Function("next_state", ARGUMENTS)
        key, low, high = self._state(fn, fn.load("ptr", "%buffers", 8))
        result = fn.load("ptr", fn.gep("%buffers", 1, "ptr"), 8)
        after = fn.op(f"add i64 {low}, {form.counters}")
        carry = fn.op(f"zext i1 {fn.compare('ult', after, low)} to i64")
        words = [key, after, fn.op(f"add i64 {high}, {carry}")]
        for number, word in enumerate(words[: form.state]):
            fn.store("i64", word, fn.gep(result, number, "i64"), 8)
        return fn

    # -- pieces --------------------------------------------------------------------------------

    def _pieces(self, state: Sequence[str], result: str) -> None:
        form, fn, lanes = self.form, self.fn, self.lanes
        with fn.loop("%begin", "%end") as loop:
            row, piece = fn.div(loop.index, form.pieces), fn.rem(loop.index, form.pieces)
            first = fn.mul(piece, form.piece)
            last = fn.min(fn.add(first, form.piece), form.row)
            with fn.loop(first, last, lanes) as block:
                words = self._words(state, fn.add(fn.mul(row, form.row), block.index))
                if form.apart == 1:
                    self._store_mixed(words, result, row, block.index)
                else:
                    self._store_apart(words, result, row, block.index)

    def _words(self, state: Sequence[str], first: Integer) -> list[Number]:
        """The words of counters from `first` on, as integers of the result's width."""
        fn, form, lanes = self.fn, self.form, self.lanes
        key, low, high = (
            Number(fn, self.target, "i64", lanes, fn.splat("i64", x, lanes)) for x in state
        )
        counter = low + memory.numbered_lanes(fn, self.target, first, lanes)
        if form.is_threefry:
            found = threefry(key, counter)
        else:
            carry = counter.compare("ult", low).cast("zext", "i64")
            found = philox(key, counter, high + carry)
        if form.type.bits == 64:
            wide = [x.cast("zext", "i64") for x in found]
            return [a | (b << 32) for a, b in zip(wide[::2], wide[1::2], strict=True)]
        kind = f"i{max(8, form.type.bits)}"
        words = [x.cast("trunc", kind) for x in found]
        if form.type.bits < 8:
            words = [x & ((1 << form.type.bits) - 1) for x in words]
        return words

    # -- results -------------------------------------------------------------------------------

    def _store(self, words: Number, place: str, left: Integer) -> None:
        """Store a vector, of which the first `left` lanes count."""
        fn, lanes = self.fn, words.lanes
        type_ = _UNSIGNED[words.width]
        value = Value((words.name,), type_, lanes)

        def masked() -> list[str]:
            bound = fn.splat("i64", str(left), lanes)
            mask = fn.op(f"icmp slt <{lanes} x i64> {memory.lane_numbers(lanes)}, {bound}")
            memory.store(fn, self.target, value, place, mask)
            return []

        def whole() -> list[str]:
            memory.store(fn, self.target, value, place)
            return []

        fn.choose(fn.compare("sge", left, lanes), [], whole, masked)

    def _store_mixed(self, words: list[Number], result: str, row: Integer, first: Integer) -> None:
        """Store the words of each counter one behind the other."""
        fn, form = self.fn, self.form
        start = fn.mul(first, form.words)
        left = fn.sub(form.elements, start)
        place = fn.gep(result, fn.add(fn.mul(row, form.elements), start), words[0].element)
        self._store(_interleaved(words), place, left)

    def _store_apart(self, words: list[Number], result: str, row: Integer, first: Integer) -> None:
        """Store each word of a row of counters in a row of its own."""
        fn, form = self.fn, self.form
        left = fn.sub(form.row, first)
        group, within = fn.div(row, form.period), fn.rem(row, form.period)
        size = 2 * form.period - (1 if form.odd else 0)
        for number, word in enumerate(words):
            at = fn.add(fn.mul(within, 2), number)
            line = fn.add(fn.mul(group, size), at)
            place = fn.gep(result, fn.add(fn.mul(line, form.apart), first), word.element)
            with fn.when(fn.compare("slt", at, size)):
                self._store(word, place, left)


_UNSIGNED: Final = {
    8: ElementType.U8,
    16: ElementType.U16,
    32: ElementType.U32,
    64: ElementType.U64,
}


def _interleaved(words: list[Number]) -> Number:
    """The lanes of vectors in turn, as one vector."""
    while len(words) > 1:
        half = len(words) // 2
        words = [_pair(a, b) for a, b in zip(words[:half], words[half:], strict=True)]
    return words[0]


def _pair(a: Number, b: Number) -> Number:
    picks = [i // 2 + a.lanes * (i % 2) for i in range(2 * a.lanes)]
    name = a.fn.shuffle(a.type, a.name, b.name, picks)
    return Number(a.fn, a.target, a.element, 2 * a.lanes, name)
