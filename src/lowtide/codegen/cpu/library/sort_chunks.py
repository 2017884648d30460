"""Functions of a sort that look at chunks of a row: the elements of all operands, and their keys.

Source: H. Hollerith (1889), "An electric tabulating system"; M. Zagha and G. Blelloch (1991),
"Radix sort for vector multiprocessors".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.library.sort_rows import keys_at
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.library.order import joined
from lowtide.codegen.library.sort_form import SortForm
from lowtide.ir import array_shape
from lowtide.llvm.callee import FunctionParameter, external, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

BUCKETS: Final = 256
COUNTS: Final = 4 * BUCKETS
"""Bytes in which the elements of a chunk are counted."""

SPAN: Final = 16
"""Bytes that say which bits are set in any key of a chunk, and which in all."""


def _pointers(form: SortForm, *names: str) -> tuple[FunctionParameter, ...]:
    """Parameters with the arrays of all operands, for each of some names."""
    count = len(form.sort.operands)
    return parameters(**{f"{name}{x}": "ptr" for name in names for x in range(count)})


class ChunkFunction:
    """A function that looks at elements first..last of a row in the arrays `%s0`, `%s1`, ...

    `shift` is by how many bits keys are moved to have the wanted byte lowest.
    """

    def __init__(self, form: SortForm, target: Target, name: str, *arrays: str) -> None:
        self.form, self.target, self.lanes = form, target, target.vector_bytes // 8
        given = parameters(table="ptr", shift="i64", first="i64", last="i64")
        self.function = Function(name, _pointers(form, *arrays) + given, linkage="internal")
        self.elements = vector_elements(self.function, target, self.lanes)
        self.types = [x.shape.element_type for x in form.sort.operands]
        self._arrays = [
            Array(f"%s{number}", array_shape(type_, (form.size,)))
            for number, type_ in enumerate(self.types)
        ]

    def whole(self) -> tuple[Integer, Mask]:
        """Where the last whole vector ends, and a mask for what is behind it."""
        fn, lanes = self.function, self.lanes
        whole = fn.sub("%last", fn.op(f"urem i64 {fn.sub('%last', '%first')}, {lanes}"))
        place = self.elements.indices.variable(whole, self.form.size, is_lane=True)
        vector, last = self.elements.indices.vector(place), fn.splat("i64", "%last", lanes)
        inside = fn.op(f"icmp ult <{lanes} x i64> {vector}, {last}")
        return whole, Mask(inside, lanes, self.elements.scopes.level)

    def keys(self, first: Integer, mask: Mask | None) -> str:
        """The keys of a vector of elements, as integers of 64 bits."""
        place = self.elements.indices.variable(first, self.form.size, is_lane=True)
        return joined(keys_at(self.form, self.elements, self._arrays, (place,), mask)).name

    def each(self, step: Callable[[Integer, str], None]) -> None:
        """Write a loop over all elements; `step` gets a place and the byte of its key."""
        fn, lanes, bits = self.function, self.lanes, f"i{8 * self.lanes}"
        whole, mask = self.whole()
        with self.elements.scopes.loop("%first", whole, lanes) as loop:
            digits = self._digits(loop.index, None)
            for lane in range(lanes):
                digit = fn.op(f"lshr {bits} {digits}, {8 * lane}")
                step(fn.add(loop.index, lane), self._lowest(digit))
        with fn.loop(whole, "%last", 1, [(bits, self._digits(whole, mask))]) as loop:
            step(loop.index, self._lowest(loop.values[0]))
            loop.next = [fn.op(f"lshr {bits} {loop.values[0]}, 8")]

    def _digits(self, first: Integer, mask: Mask | None) -> str:
        """The wanted bytes of the keys of a vector of elements, the first in the lowest bits.

        They stay in a register: loads of parts of a vector that was just stored are slow.
        """
        fn, lanes = self.function, self.lanes
        vector = f"<{lanes} x i64>"
        shift = fn.splat("i64", "%shift", lanes)
        moved = fn.op(f"lshr {vector} {self.keys(first, mask)}, {shift}")
        narrow = fn.op(f"trunc {vector} {moved} to <{lanes} x i8>")
        return fn.op(f"bitcast <{lanes} x i8> {narrow} to i{8 * lanes}")

    def _lowest(self, digits: str) -> str:
        """The first of such bytes, as an i64."""
        byte = self.function.op(f"trunc i{8 * self.lanes} {digits} to i8")
        return self.function.op(f"zext i8 {byte} to i64")

    def move(self, place: Integer, to: Integer) -> None:
        """Move an element of each operand from a place in `%s` to one in `%t`."""
        fn = self.function
        for number, type_ in enumerate(self.types):
            bits, align = f"i{8 * type_.nbytes}", memory.element_bytes(type_)
            element = fn.load(bits, fn.gep(f"%s{number}", place, bits), align)
            fn.store(bits, element, fn.gep(f"%t{number}", to, bits), align)


def _increased(fn: Function, counter: str) -> str:
    """Add one to a counter; return what it was."""
    old = fn.load("i32", counter, 4)
    fn.store("i32", fn.op(f"add i32 {old}, 1"), counter, 4)
    return old


def span_function(form: SortForm, target: Target) -> ChunkFunction:
    """Return a function that stores the bits of any key of a chunk in `table`, and those of all."""
    chunk = ChunkFunction(form, target, "span", "s")
    fn, elements, lanes = chunk.function, chunk.elements, chunk.lanes
    vector = f"<{lanes} x i64>"
    kinds = (("or", "zeroinitializer"), ("and", fn.splat("i64", "-1", lanes)))
    whole, mask = chunk.whole()
    with elements.scopes.loop("%first", whole, lanes, [(vector, x) for _, x in kinds]) as loop:
        keys = chunk.keys(loop.index, None)
        loop.next = [
            fn.op(f"{kind} {vector} {found}, {keys}")
            for (kind, _), found in zip(kinds, loop.values, strict=True)
        ]
    rest = chunk.keys(whole, mask)
    for place, (kind, none) in enumerate(kinds):
        last = fn.op(f"select <{lanes} x i1> {mask.name}, {vector} {rest}, {vector} {none}")
        both = fn.op(f"{kind} {vector} {loop.results[place]}, {last}")
        bits = fn.call(external(f"llvm.vector.reduce.{kind}.v{lanes}i64", "i64", vector), [both])
        fn.store("i64", bits, fn.gep("%table", place, "i64"), 8)
    return chunk


def count_function(form: SortForm, target: Target) -> ChunkFunction:
    """Return a function that counts the elements of a chunk by a byte of their keys."""
    chunk = ChunkFunction(form, target, "count", "s")
    fn = chunk.function
    with fn.loop(0, BUCKETS, 16) as loop:
        fn.store("<16 x i32>", "zeroinitializer", fn.gep("%table", loop.index, "i32"), 4)

    def step(place: Integer, digit: str) -> None:
        _increased(fn, fn.gep("%table", digit, "i32"))

    chunk.each(step)
    return chunk


def move_function(form: SortForm, target: Target) -> ChunkFunction:
    """Return a function that moves the elements of a chunk to where the table has room for them."""
    chunk = ChunkFunction(form, target, "move", "s", "t")
    fn = chunk.function

    def step(place: Integer, digit: str) -> None:
        counter = fn.gep("%table", digit, "i32")
        chunk.move(place, fn.op(f"zext i32 {_increased(fn, counter)} to i64"))

    chunk.each(step)
    return chunk


def copy_function(form: SortForm, target: Target) -> ChunkFunction:
    """Return a function that moves the elements of a chunk to the same places."""
    chunk = ChunkFunction(form, target, "copy", "s", "t")
    with chunk.function.loop("%first", "%last") as loop:
        chunk.move(loop.index, loop.index)
    return chunk


def room_function(chunks: int) -> Function:
    """Return a function that makes of counts where the elements of a chunk go, by their buckets."""
    given = parameters(counts="ptr", table="ptr", chunk="i64")
    fn = Function("room", given, linkage="internal")
    totals, vector = fn.stack("i32", BUCKETS), "<16 x i32>"
    with fn.loop(0, BUCKETS, 16) as loop:
        carry = [(vector, "zeroinitializer")] * 2
        with fn.loop(0, chunks, 1, carry) as each:
            at = fn.add(fn.mul(each.index, BUCKETS), loop.index)
            found = fn.load(vector, fn.gep("%counts", at, "i32"), 4)
            is_before = fn.compare("slt", each.index, "%chunk")
            before = fn.select(is_before, vector, found, "zeroinitializer")
            each.next = [
                fn.op(f"add {vector} {x}, {y}")
                for x, y in zip(each.values, (found, before), strict=True)
            ]
        for array, sums in zip((totals, "%table"), each.results, strict=True):
            fn.store(vector, sums, fn.gep(array, loop.index, "i32"), 4)
    with fn.loop(0, BUCKETS, 1, [("i32", "0")]) as loop:
        entry = fn.gep("%table", loop.index, "i32")
        before = fn.op(f"add i32 {fn.load('i32', entry, 4)}, {loop.values[0]}")
        fn.store("i32", before, entry, 4)
        total = fn.load("i32", fn.gep(totals, loop.index, "i32"), 4)
        loop.next = [fn.op(f"add i32 {loop.values[0]}, {total}")]
    return fn


def passes_function(chunks: int, digits: int) -> Function:
    """Return a function that says by spans of chunks which bytes of keys differ, a bit for each."""
    fn = Function("passes", parameters(spans="ptr"), returns="i64", linkage="internal")
    with fn.loop(0, chunks, 1, [("i64", "0"), ("i64", "-1")]) as loop:
        span = fn.gep("%spans", fn.mul(loop.index, SPAN))
        loop.next = [
            fn.op(f"{kind} i64 {value}, {fn.load('i64', fn.gep(span, 8 * place), 8)}")
            for place, (kind, value) in enumerate(zip(("or", "and"), loop.values, strict=True))
        ]
    different = fn.op(f"xor i64 {loop.results[0]}, {loop.results[1]}")
    found = "0"
    for digit in range(digits):
        byte = fn.op(f"and i64 {fn.op(f'lshr i64 {different}, {8 * digit}')}, {BUCKETS - 1}")
        bit = fn.op(f"zext i1 {fn.compare('ne', byte, 0)} to i64")
        found = fn.op(f"or i64 {found}, {fn.op(f'shl i64 {bit}, {digit}')}")
    fn.ret("i64", found)
    return fn
