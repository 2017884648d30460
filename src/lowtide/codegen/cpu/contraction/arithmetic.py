"""Types in which products are formed and added up, and the instructions that do so.

An operand that is packed has *units*: what one lane of a vector holds. A unit is one element, or
several that follow one another along the contracted dimension, where an instruction multiplies them
with those of another unit and adds up all products at once.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from lowtide.codegen.value import register_type, vector_type
from lowtide.ir.element_type import ElementType
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.records.late import late_function

if TYPE_CHECKING:
    from lowtide.codegen.cpu.contraction.rests import Rests


class MultiplyMethod(Enum):
    """The instructions of one step along the contracted dimension."""

    FLOAT = auto()
    """A fused multiplication and addition."""
    INTEGER = auto()
    """A multiplication and an addition, modulo the width of the sum."""
    COMPLEX = auto()
    """Four fused multiplications and additions."""
    BF16_PAIRS = auto()
    """Two products of bf16 added to an f32; denormals count as 0."""
    S16_PAIRS = auto()
    """Two products of 16-bit integers added to a 32-bit one, modulo 2^32."""
    S16_LANES = auto()
    """A product of 16-bit integers added to a 32-bit one, where each lane has its own row."""
    BYTE_QUADS = auto()
    """Four products of 8-bit integers, with or without sign, likewise; no partial sum saturates."""
    BYTE_PAIRS = auto()
    """The same by twos, whose sums saturate in 16 bits: only columns have a sign, and `rests`."""
    BYTE_WORDS = auto()
    """The same widened to 16 bits in registers: of columns with a sign, rows without."""
    BF16_TILES = auto()
    """Pairs of bf16 in registers that hold 16 x 16 sums; denormals count as 0."""
    S8_TILES = auto()
    """Four products of 8-bit integers, likewise, with or without sign."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A method, the type of the sums, and the type that elements are converted to before.

    Bytes of rows are taken without a sign with `rows_unsigned`, those of columns likewise.
    """

    method: MultiplyMethod
    total: ElementType
    element: ElementType
    rows_unsigned: bool = False
    columns_unsigned: bool = False

    @property
    def group(self) -> int:
        """How many elements make a unit."""
        return _GROUPS.get(self.method, 1)

    @property
    def is_tiled(self) -> bool:
        """Whether registers hold squares of sums, and units come in whole vectors along k."""
        return self.method in (MultiplyMethod.BF16_TILES, MultiplyMethod.S8_TILES)

    def element_of(self, type_: ElementType) -> ElementType:
        """Return the type that elements of a type are converted to before they are multiplied."""
        is_byte = self.element is ElementType.S8
        return type_ if is_byte and type_ is ElementType.U8 else self.element

    @property
    def is_offset(self) -> bool:
        """Whether bytes of rows are moved by 128, as one of two operands has a sign.

        Then a row of 128s is multiplied as well: its sums are what the others are too large by.
        """
        is_alike = self.rows_unsigned == self.columns_unsigned
        return self.method is MultiplyMethod.BYTE_QUADS and is_alike

    @property
    def more_rows(self) -> int:
        """Rows of sums that a tile has beside its own."""
        return int(self.is_offset)

    def fits(self, rows: int, vectors: int, target: Target, spare: int = 0) -> bool:
        """Whether registers hold a tile with its operands, and `spare` vectors of units more.

        A product that is not added up by the same instruction takes one for itself, and one of
        pairs of bytes another one for the factors that widen it.
        """
        held = (rows + self.more_rows) * vectors + vectors + 1 + self.more_rows + spare
        is_split = self.method in (MultiplyMethod.INTEGER, MultiplyMethod.BYTE_PAIRS) or (
            self.method in (MultiplyMethod.S16_PAIRS, MultiplyMethod.S16_LANES)
            and not has_vnni(target)
        )
        held += is_split + (self.method is MultiplyMethod.BYTE_PAIRS)
        return self.planes * held + self.planes - 1 <= target.registers

    @property
    def planes(self) -> int:
        """How many vectors hold a vector of sums or of units: two of complex ones."""
        return 2 if self.method is MultiplyMethod.COMPLEX else 1

    @property
    def multiplications(self) -> int:
        """Instructions that multiply a vector of units with another one."""
        return 2 if self.method is MultiplyMethod.BYTE_PAIRS else self.planes**2

    @property
    def unit(self) -> str:
        """The LLVM type of a unit, of each part of a complex one."""
        return "i32" if self.group > 1 else register_type(self.total)

    @property
    def sum_type(self) -> str:
        """The LLVM type of a sum, of each part of a complex one."""
        return register_type(self.total)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit in memory, both parts of a complex one together."""
        return self.total.bits // 8

    @property
    def row_unit_bytes(self) -> int:
        """The same of rows: fewer where each lane has its own, which is widened when it is read."""
        is_narrow = self.method is MultiplyMethod.S16_LANES
        return self.element.bits // 8 if is_narrow else self.unit_bytes

    @property
    def row_element_bytes(self) -> int:
        """Bytes of an element of rows, of which a unit has `group`."""
        return self.row_unit_bytes // self.group

    def lanes(self, target: Target) -> int:
        """How many sums a vector holds."""
        return target.vector_bytes * self.planes // self.unit_bytes

    def zero(self, lanes: int) -> tuple[str, ...]:
        """Return the vectors of a sum of nothing."""
        return ("zeroinitializer" if lanes else _zero(self.sum_type),) * self.planes

    def moved(self, fn: Function, lanes: int, units: tuple[str, ...]) -> tuple[str, ...]:
        """Return units of rows as they are multiplied: bytes moved by 128 where that is needed."""
        if not self.is_offset:
            return units
        type_ = vector_type(self.unit, lanes)
        return tuple([fn.op(f"xor {type_} {x}, {self.offset_row(fn, lanes)[0]}") for x in units])

    def offset_row(self, fn: Function, lanes: int) -> tuple[str, ...]:
        """Return the units of the row of 128s.

        LLVM 22 does not end on some products of bytes whose highest bits it knows to be turned.
        Where it knows lanes to be equal it turns the bits of one and spreads that, which takes two
        instructions more than to turn what is spread by its load.
        """
        return (fn.hidden(_OFFSETS, lanes),)

    def without_offset(
        self, fn: Function, lanes: int, sums: list[list[tuple[str, ...]]]
    ) -> list[list[tuple[str, ...]]]:
        """Return the sums of a tile less those of the row of 128s, which is the last one."""
        if not self.is_offset:
            return sums
        *rows, last = sums
        type_ = vector_type(self.sum_type, lanes)
        return [
            [(fn.op(f"sub {type_} {x}, {y}"),) for (x,), (y,) in zip(row, last, strict=True)]
            for row in rows
        ]

    def multiply_add(
        self,
        fn: Function,
        target: Target,
        lanes: int,
        total: tuple[str, ...],
        a: tuple[str, ...],
        b: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Return total + a * b for vectors of units; each is one vector for each plane."""
        return _METHODS[self.method](_MultiplyStep(self, fn, target, lanes, total, a, b))


def rests_of(
    how: Arithmetic, lanes: int, steps: int, vectors: int, behind: int, places: int = 1
) -> Rests | None:
    """Return the rests of a packed panel, None where no sum can saturate."""
    if how.method is not MultiplyMethod.BYTE_PAIRS:
        return None
    found: Rests = _LISTS(how, lanes, steps, vectors, behind, places)
    return found


_LISTS: Final = late_function(
    "lowtide.codegen.cpu.contraction.rests", "LISTS", MultiplyMethod.BYTE_PAIRS
)

_OFFSETS: Final = 0x80808080 - (1 << 32)
"""Four bytes of 128, or of -128."""

_GROUPS: Final = {
    MultiplyMethod.BYTE_QUADS: 4,
    MultiplyMethod.BYTE_PAIRS: 4,
    MultiplyMethod.BYTE_WORDS: 4,
    MultiplyMethod.BF16_PAIRS: 2,
    MultiplyMethod.S16_PAIRS: 2,
    MultiplyMethod.BF16_TILES: 2,
    MultiplyMethod.S8_TILES: 4,
}


def _zero(type_: str) -> str:
    return "0.0" if type_ in ("float", "double") else "0"


_Vectors = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _MultiplyStep:
    """What is multiplied, units `a` and `b`, and added to `total`: a vector for each plane."""

    how: Arithmetic
    fn: Function
    target: Target
    lanes: int
    total: _Vectors
    a: _Vectors
    b: _Vectors

    @property
    def type_(self) -> str:
        """The LLVM type of a vector of sums."""
        return vector_type(self.how.sum_type, self.lanes)

    def fma(self, a: str, b: str, total: str) -> str:
        """Return total + a * b, rounded once."""
        return self.fn.intrinsic("fma", self.type_, a, b, total)

    def parts(self, count: int, element: str) -> tuple[str, str, str]:
        """Return the type of vectors of the `count` parts of units, and both operands as such."""
        type_, given = f"<{count * self.lanes} x {element}>", f"<{self.lanes} x i32>"
        x, y = (self.fn.op(f"bitcast {given} {v} to {type_}") for v in (self.a[0], self.b[0]))
        return type_, x, y

    def dot(self, name: str, type_: str, x: str, y: str) -> _Vectors:
        """Return the total with sums of products of parts, which one instruction adds to it."""
        sums = self.type_
        called = external(f"llvm.x86.avx512{name}.{32 * self.lanes}", sums, sums, type_, type_)
        return (self.fn.call(called, [self.total[0], x, y]),)


def _float(step: _MultiplyStep) -> _Vectors:
    return (step.fma(step.a[0], step.b[0], step.total[0]),)


def _integer(step: _MultiplyStep) -> _Vectors:
    product = step.fn.op(f"mul {step.type_} {step.a[0]}, {step.b[0]}")
    return (step.fn.op(f"add {step.type_} {step.total[0]}, {product}"),)


def _complex(step: _MultiplyStep) -> _Vectors:
    (a, ai), (b, bi) = step.a, step.b
    minus = step.fn.op(f"fneg {step.type_} {ai}")
    real, imaginary = step.fma(a, b, step.total[0]), step.fma(a, bi, step.total[1])
    return step.fma(minus, bi, real), step.fma(ai, b, imaginary)


def _bf16_pairs(step: _MultiplyStep) -> _Vectors:
    return step.dot("bf16.dpbf16ps", *step.parts(2, "bfloat"))


def _s16_pairs(step: _MultiplyStep) -> _Vectors:
    pairs, x, y = step.parts(2, "i16")
    if has_vnni(step.target):
        return step.dot(".vpdpwssd", pairs, x, y)
    return (_pairs_added(step.fn, step.lanes, step.total[0], x, y),)


def _pairs_added(fn: Function, lanes: int, total: str, x: str, y: str) -> str:
    """Sums with two products of 16-bit integers added to each."""
    sums, pairs = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    products = fn.call(external(_PAIRS[4 * lanes], sums, pairs, pairs), [x, y])
    return fn.op(f"add {sums} {total}, {products}")


_PAIRS: Final = {
    16: "llvm.x86.sse2.pmadd.wd",
    32: "llvm.x86.avx2.pmadd.wd",
    64: "llvm.x86.avx512.pmaddw.d.512",
}
"""By the bytes of a vector what adds two products of 16-bit integers, which is exact."""


def _byte_quads(step: _MultiplyStep) -> _Vectors:
    quads, x, y = step.parts(4, "i8")
    return step.dot(".vpdpbusd", quads, *((y, x) if step.how.columns_unsigned else (x, y)))


def _byte_pairs(step: _MultiplyStep) -> _Vectors:
    fn, lanes = step.fn, step.lanes
    _, x, y = step.parts(4, "i8")
    return (
        _pairs_added(fn, lanes, step.total[0], sums_of_pairs(fn, lanes, x, y), "splat (i16 1)"),
    )


def _byte_words(step: _MultiplyStep) -> _Vectors:
    """The products of even bytes, and of odd ones, each of which has 16 bits."""
    fn, lanes = step.fn, step.lanes
    words, x, y = step.parts(2, "i16")
    rows = fn.op(f"and {words} {x}, splat (i16 255)"), fn.op(f"lshr {words} {x}, splat (i16 8)")
    low = fn.op(f"shl {words} {y}, splat (i16 8)")
    columns = [fn.op(f"ashr {words} {z}, splat (i16 8)") for z in (low, y)]
    total = step.total[0]
    for a, b in zip(rows, columns, strict=True):
        total = _pairs_added(fn, lanes, total, a, b)
    return (total,)


def sums_of_pairs(fn: Function, lanes: int, a: str, b: str) -> str:
    """Return sums of two products of bytes without a sign and bytes with one, in 16 bits."""
    quads, pairs = f"<{4 * lanes} x i8>", f"<{2 * lanes} x i16>"
    return fn.call(external(_BYTE_PAIRS[4 * lanes], pairs, quads, quads), [a, b])


_BYTE_PAIRS: Final = {32: "llvm.x86.avx2.pmadd.ub.sw", 64: "llvm.x86.avx512.pmaddubs.w.512"}
"""By the bytes of a vector what adds two products of bytes in 16 bits, which saturate."""

_METHODS: Final = {
    MultiplyMethod.FLOAT: _float,
    MultiplyMethod.INTEGER: _integer,
    MultiplyMethod.COMPLEX: _complex,
    MultiplyMethod.BF16_PAIRS: _bf16_pairs,
    MultiplyMethod.S16_PAIRS: _s16_pairs,
    MultiplyMethod.S16_LANES: _s16_pairs,
    MultiplyMethod.BYTE_QUADS: _byte_quads,
    MultiplyMethod.BYTE_PAIRS: _byte_pairs,
    MultiplyMethod.BYTE_WORDS: _byte_words,
}


def has_vnni(target: Target) -> bool:
    """Whether one instruction adds products of groups of integers in the widest vectors."""
    return target.has({64: "avx512vnni", 32: "avxvnni"}.get(target.vector_bytes, ""))


_COMPLEX: Final = {False: ElementType.C64, True: ElementType.C128}
_FLOAT: Final = {False: ElementType.F32, True: ElementType.F64}
_DOUBLES: Final = frozenset({ElementType.F64, ElementType.C128})
_S16: Final = frozenset({ElementType.S8, ElementType.U8, ElementType.S16, ElementType.PRED})


def arithmetic_of(
    lhs: ElementType, rhs: ElementType, result: ElementType, target: Target
) -> Arithmetic:
    """Return how to multiply elements of two types: exactly enough for the type of the result.

    Floating point is added up in f32 or wider, integers modulo 2^32 or, for results of 64 bits,
    modulo 2^64.
    """
    types = (lhs, rhs, result)
    is_double = any(x in _DOUBLES for x in types)
    if any(x.is_complex for x in types):
        total = _COMPLEX[is_double]
        return Arithmetic(MultiplyMethod.COMPLEX, total, total)
    if any(x.is_floating for x in types):
        if lhs is rhs is ElementType.BF16 and has_bf16(target) and not is_double:
            return Arithmetic(MultiplyMethod.BF16_PAIRS, ElementType.F32, ElementType.BF16)
        total = _FLOAT[is_double]
        return Arithmetic(MultiplyMethod.FLOAT, total, total)
    if result.bits == 64:
        return Arithmetic(MultiplyMethod.INTEGER, ElementType.S64, ElementType.S64)
    if _fits_s16(lhs) and _fits_s16(rhs) and target.triple.startswith("x86_64"):
        return Arithmetic(MultiplyMethod.S16_PAIRS, ElementType.S32, ElementType.S16)
    return Arithmetic(MultiplyMethod.INTEGER, ElementType.S32, ElementType.S32)


def _fits_s16(type_: ElementType) -> bool:
    return type_ in _S16 or type_.bits < 8


def quads_of(how: Arithmetic, lhs: ElementType, rhs: ElementType, target: Target) -> Arithmetic:
    """Return the arithmetic of packed operands of two types: four bytes at once, if it can be.

    `how` is the arithmetic otherwise. The second operand has the columns. By twos rows with a sign
    take the products of a row of 128s and win nothing, whatever the columns are.
    """
    if how.method is not MultiplyMethod.S16_PAIRS or not _fits_byte(lhs) or not _fits_byte(rhs):
        return how
    method = MultiplyMethod.BYTE_QUADS
    if not has_vnni(target):
        has_pairs = target.vector_bytes in _BYTE_PAIRS
        if lhs is not ElementType.U8 or rhs is ElementType.U8 or not has_pairs:
            return how
        method = MultiplyMethod.BYTE_PAIRS
    signs = [x is ElementType.U8 for x in (lhs, rhs)]
    return Arithmetic(method, ElementType.S32, ElementType.S8, *signs)


def lanes_of(how: Arithmetic, type_: ElementType) -> Arithmetic:
    """Return the arithmetic of rows of a type where each lane of columns has a row of its own.

    `how` is the arithmetic of units. The upper half of each column is 0, so that it counts once.
    """
    if how.method is not MultiplyMethod.S16_PAIRS:
        return without_pairs(how)
    element = ElementType.S8 if _fits_byte(type_) else ElementType.S16
    return Arithmetic(MultiplyMethod.S16_LANES, how.total, element, type_ is ElementType.U8)


def has_bf16(target: Target) -> bool:
    """Whether pairs of bf16 are worth an instruction of the widest vectors.

    On processors that multiply tiles of bf16 that instruction has half the rate of an f32 product.
    """
    is_slow = target.has("amx-bf16")
    return target.vector_bytes == 64 and target.has("avx512bf16") and not is_slow


def without_pairs(how: Arithmetic) -> Arithmetic:
    """Return the arithmetic with units of one element, for operands that are not packed."""
    if how.group == 1:
        return how
    method = MultiplyMethod.INTEGER if how.total.is_integer else MultiplyMethod.FLOAT
    return Arithmetic(method, how.total, how.total)


def tiled(how: Arithmetic, lhs: ElementType, rhs: ElementType, target: Target) -> Arithmetic | None:
    """Return the arithmetic of large products in registers of squares, None where there are none.

    `how` is the arithmetic otherwise.
    """
    if target.vector_bytes != 64 or not target.has("amx-tile"):
        return None
    is_bf16 = lhs is rhs is ElementType.BF16 and how.total is ElementType.F32
    if is_bf16 and target.has("amx-bf16"):
        return Arithmetic(MultiplyMethod.BF16_TILES, ElementType.F32, ElementType.BF16)
    is_s8 = _fits_byte(lhs) and _fits_byte(rhs) and how.total is ElementType.S32
    if is_s8 and target.has("amx-int8"):
        return Arithmetic(MultiplyMethod.S8_TILES, ElementType.S32, ElementType.S8)
    return None


def _fits_byte(type_: ElementType) -> bool:
    return type_ in (ElementType.S8, ElementType.U8, ElementType.PRED) or type_.bits < 8
