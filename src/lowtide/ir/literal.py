"""Literals: constant values on NumPy and ml_dtypes arrays, and their HLO text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, final

import numpy as np
import numpy.typing as npt

from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import Shape

Array = npt.NDArray[Any]
_LINE: Final = 64
"""Bytes of a line of memory."""
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_PLAIN: Final[dict[ElementType, np.dtype[Any]]] = {
    ElementType.PRED: np.dtype(np.bool_),
    ElementType.S8: np.dtype(np.int8),
    ElementType.S16: np.dtype(np.int16),
    ElementType.S32: np.dtype(np.int32),
    ElementType.S64: np.dtype(np.int64),
    ElementType.U8: np.dtype(np.uint8),
    ElementType.U16: np.dtype(np.uint16),
    ElementType.U32: np.dtype(np.uint32),
    ElementType.U64: np.dtype(np.uint64),
    ElementType.F16: np.dtype(np.float16),
    ElementType.F32: np.dtype(np.float32),
    ElementType.F64: np.dtype(np.float64),
    ElementType.C64: np.dtype(np.complex64),
    ElementType.C128: np.dtype(np.complex128),
}


NARROW: Final = {
    **{ElementType(f"s{x}"): f"int{x}" for x in (1, 2, 4)},
    **{ElementType(f"u{x}"): f"uint{x}" for x in (1, 2, 4)},
    ElementType.BF16: "bfloat16",
    ElementType.F8E5M2: "float8_e5m2",
    ElementType.F8E4M3: "float8_e4m3",
    ElementType.F8E4M3FN: "float8_e4m3fn",
    ElementType.F8E4M3B11FNUZ: "float8_e4m3b11fnuz",
    ElementType.F8E3M4: "float8_e3m4",
    ElementType.F8E5M2FNUZ: "float8_e5m2fnuz",
    ElementType.F8E4M3FNUZ: "float8_e4m3fnuz",
    ElementType.F8E8M0FNU: "float8_e8m0fnu",
    ElementType.F4E2M1FN: "float4_e2m1fn",
    ElementType.F6E3M2FN: "float6_e3m2fn",
    ElementType.F6E2M3FN: "float6_e2m3fn",
}
"""What NumPy has not, by its name in ml_dtypes, which takes as long to load as ten files."""


@cache
def _narrow() -> dict[ElementType, np.dtype[Any]]:
    import ml_dtypes

    return {x: np.dtype(getattr(ml_dtypes, name)) for x, name in NARROW.items()}


def _swapped(table: Mapping[ElementType, np.dtype[Any]]) -> dict[np.dtype[Any], ElementType]:
    return {dtype: element_type for element_type, dtype in table.items()}


@final
class _Table(Mapping[KeyT, ValueT]):
    """A table of what NumPy has, and of the rest once something else is asked for."""

    def __init__(self, plain: dict[KeyT, ValueT], rest: Callable[[], dict[KeyT, ValueT]]) -> None:
        self._plain, self._rest = plain, rest

    def __getitem__(self, key: KeyT) -> ValueT:
        found = self._plain.get(key)
        return self._rest()[key] if found is None else found

    def __iter__(self) -> Iterator[KeyT]:
        return iter((*self._plain, *self._rest()))

    def __len__(self) -> int:
        return len(self._plain) + len(self._rest())


DTYPES: Final = _Table(_PLAIN, _narrow)
"""The NumPy dtype of each array element type; narrow types take one byte per element."""

ELEMENT_TYPES: Final = _Table(_swapped(_PLAIN), cache(lambda: _swapped(_narrow())))

PRINT_LIMIT: Final = 10
"""XLA's text shows `{...}` instead of the value of an array with more elements than this."""


@final
class Literal:
    """A constant value of a given shape.

    `value` is an array of the logical dimensions (never written to), a tuple of literals for a
    tuple shape, or None for a token. `elided` marks a constant whose text was `{...}`: `value`
    holds the numbers that XLA's parser puts there, and zeros where it is very large. Nobody knows
    whether two of these had the same numbers, so each equals only itself.
    """

    __slots__ = ("elided", "shape", "value")

    def __init__(
        self, shape: Shape, value: Array | tuple[Literal, ...] | None, *, elided: bool = False
    ) -> None:
        self.shape = shape
        self.value = value
        self.elided = elided
        if isinstance(value, np.ndarray):
            value.flags.writeable = False

    @property
    def array(self) -> Array:
        """The value of an array literal; raises TypeError for a tuple or token."""
        if not isinstance(self.value, np.ndarray):
            raise TypeError(f"a literal of shape {self.shape} is not an array")
        return self.value

    @property
    def elements(self) -> tuple[Literal, ...]:
        """The elements of a tuple literal; raises TypeError for others."""
        if not isinstance(self.value, tuple):
            raise TypeError(f"a literal of shape {self.shape} is not a tuple")
        return self.value

    def __eq__(self, other: object) -> bool:
        """Whether shape and bits are the same: NaN equals NaN, and -0 differs from 0."""
        if not isinstance(other, Literal):
            return NotImplemented
        if self is other or self.elided or other.elided or self.shape is not other.shape:
            return self is other
        if isinstance(self.value, np.ndarray) and isinstance(other.value, np.ndarray):
            return self.value.tobytes() == other.value.tobytes()
        return self.value == other.value

    def __hash__(self) -> int:
        if self.elided:
            return id(self)
        if isinstance(self.value, np.ndarray):
            return hash((self.shape, self.value.tobytes()))
        return hash((self.shape, self.value))

    def text(self, *, large: bool = False) -> str:
        """Return the HLO text of the value, without its shape.

        Arrays of more than `PRINT_LIMIT` elements are shown as `{...}` unless `large`.
        """
        return literal_text(self, large=large)

    def __repr__(self) -> str:
        return f"<Literal {self.shape} {self.text()}>"


def storable(array: Array) -> Array:
    """Return an array as NumPy's files hold it: of types not NumPy's own, the bits as unsigned."""
    plain = np.asarray(array, order="C")
    if plain.dtype.isbuiltin == 1:
        return plain
    return plain.reshape(-1).view(f"u{plain.dtype.itemsize}").reshape(plain.shape)


def empty_in_lines(sizes: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Return an array that begins with a line of memory, 64 bytes, whose elements are anything.

    No vector of it lies in two lines then, where its rows are whole lines: to load those takes
    twice as long. NumPy's own arrays begin at any multiple of 16 bytes. References to objects, as
    texts are, begin where NumPy has them.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        return np.empty(sizes, kind)
    nbytes = math.prod(sizes) * kind.itemsize
    room = np.empty(nbytes + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + nbytes].view(kind).reshape(sizes)


def in_lines(array: Array) -> Array:
    """Return a copy of an array that begins with a line, its last dimension the fastest."""
    found = empty_in_lines(array.shape, array.dtype)
    found[...] = array
    return found


def array_literal(shape: Shape, array: Array) -> Literal:
    """Return the literal of `shape` with the values of `array`, cast to the element type.

    Raises ValueError where the dimensions differ.
    """
    value = np.asarray(array, DTYPES[shape.element_type])
    if value.shape != shape.dimensions:
        raise ValueError(f"an array of shape {list(value.shape)} is no literal of {shape}")
    return Literal(shape, value)


def zero_literal(shape: Shape, *, elided: bool = False) -> Literal:
    """Return the literal of `shape` whose elements are all 0."""
    if shape.is_tuple:
        return Literal(shape, tuple([zero_literal(x) for x in shape.tuple_shapes]), elided=elided)
    if not shape.is_array:
        return Literal(shape, None)
    scalar = np.zeros((), DTYPES[shape.element_type])
    return Literal(shape, np.broadcast_to(scalar, shape.dimensions), elided=elided)


# -- text --------------------------------------------------------------------------------------

_MAX_DIGITS: Final = {
    ElementType.F16: 5,
    ElementType.BF16: 4,
    ElementType.F8E5M2: 2,
    ElementType.F8E4M3: 3,
    ElementType.F8E4M3FN: 3,
    ElementType.F8E4M3B11FNUZ: 3,
    ElementType.F8E3M4: 3,
    ElementType.F8E5M2FNUZ: 2,
    ElementType.F8E4M3FNUZ: 3,
    ElementType.F8E8M0FNU: 2,
    ElementType.F4E2M1FN: 2,
    ElementType.F6E3M2FN: 2,
    ElementType.F6E2M3FN: 3,
}
"""Significant digits with which XLA prints each narrow floating point type."""


_DIGITS: Final = {ElementType.F32: (6, 9), ElementType.F64: (15, 17)}
"""Significant digits with which XLA prints a wider number, and those where they do not do."""


def _shortest(value: float, few: int, many: int, cast: Callable[[float], Any]) -> str:
    text = f"{value:.{few}g}"
    return text if cast(float(text)) == value else f"{value:.{many}g}"


def float_text(value: Any, element_type: ElementType) -> str:
    """Return the text of one floating point number as XLA prints it."""
    number = float(value)
    if number != number:
        return _nan_text(value, element_type)
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    if element_type is ElementType.F32:
        return _shortest(number, *_DIGITS[element_type], np.float32)
    if element_type is ElementType.F64:
        return _shortest(number, *_DIGITS[element_type], float)
    return f"{number:.{_MAX_DIGITS[element_type]}g}"


_MANTISSA_BITS: Final = {
    ElementType.F64: 52,
    ElementType.F32: 23,
    ElementType.F16: 10,
    ElementType.BF16: 7,
    ElementType.F8E5M2: 2,
    ElementType.F8E4M3: 3,
    ElementType.F8E3M4: 4,
}
"""Mantissa bits of the types whose NaN has a payload."""


def nan_payload_bits(element_type: ElementType) -> int:
    """Return how many bits a NaN of this type can carry; 0 for types with a single NaN."""
    return _MANTISSA_BITS.get(element_type, 0)


def _nan_text(value: Any, element_type: ElementType) -> str:
    bits = _MANTISSA_BITS.get(element_type)
    if bits is None:
        signed = element_type is not ElementType.F8E8M0FNU
        return "-nan" if signed and _raw_bits(value, element_type) >> 7 else "nan"
    raw = _raw_bits(value, element_type)
    sign = "-" if raw >> (element_type.bits - 1) else ""
    payload = raw & ((1 << bits) - 1)
    quiet = 1 << (bits - 1)
    return f"{sign}nan" if payload == quiet else f"{sign}nan(0x{payload:x})"


def _raw_bits(value: Any, element_type: ElementType) -> int:
    return int.from_bytes(np.asarray(value, DTYPES[element_type]).tobytes(), "little")


def _float_texts(values: Array, element_type: ElementType) -> list[str]:
    """The text of each number of a flat array, as `float_text` has it.

    Which numbers the few digits do not tell apart is asked of all at once.
    """
    digits = _DIGITS.get(element_type)
    if digits is None:
        return [float_text(x, element_type) for x in values]
    few, many = digits
    numbers = values.tolist()
    texts = [f"{x:.{few}g}" for x in numbers]
    with np.errstate(over="ignore"):  # The few digits of the largest numbers may say more.
        said = np.array([float(x) for x in texts]).astype(values.dtype)
    for i in np.flatnonzero(said != values).tolist():
        x = numbers[i]
        texts[i] = f"{x:.{many}g}" if x == x else _nan_text(values[i], element_type)
    return texts


def _texts(values: Array, shape: Shape) -> list[str]:
    """The text of each element of a flat array."""
    element_type = shape.element_type
    if element_type is not ElementType.PRED and not element_type.is_complex:
        if element_type.is_floating:
            return _float_texts(values, element_type)
        return [str(int(x)) for x in values.tolist()]
    return [*map(_element_formatter(shape), values)]


def _element_formatter(shape: Shape) -> Callable[[Any], str]:
    element_type = shape.element_type
    if element_type is ElementType.PRED:
        if shape.dimensions:
            return lambda x: "1" if x else "0"
        return lambda x: "true" if x else "false"
    if element_type.is_complex:
        part = ElementType.F32 if element_type is ElementType.C64 else ElementType.F64
        return lambda x: f"({float_text(x.real, part)}, {float_text(x.imag, part)})"
    if element_type.is_floating:
        return lambda x: float_text(x, element_type)
    return lambda x: str(int(x))


def literal_text(literal: Literal, *, large: bool = False) -> str:
    """Return the HLO text of a literal's value; see `Literal.text`."""
    shape = literal.shape
    if shape.is_tuple:
        if not large or literal.elided:
            return "{...}"
        parts = [literal_text(element, large=True) for element in literal.elements]
        return f"({', '.join(parts)})"
    if not shape.is_array:
        return ""
    if literal.elided or (shape.dimensions and not large and shape.element_count > PRINT_LIMIT):
        return "{...}"
    return _array_text(literal)


def _array_text(literal: Literal) -> str:
    shape, value = literal.shape, literal.array
    form = _element_formatter(shape)
    if not shape.dimensions:
        return form(value[()])
    values = _texts(value.reshape(-1), shape)
    if shape.rank == 1:
        return "{" + ", ".join(values) + "}"
    return _nested(shape.dimensions, values)


def _nested(dimensions: tuple[int, ...], values: list[str]) -> str:
    """Return the row-major `values` in nested braces, joined from the innermost dimension out.

    With more than three dimensions a comment tells the position in all but the last two.
    """
    rank = len(dimensions)
    rows = values
    for axis in range(rank - 1, -1, -1):
        size = dimensions[axis]
        tight = axis == rank - 1 and size <= 1
        grouped = []
        for i in range(math.prod(dimensions[:axis])):
            items = ", ".join(rows[i * size : (i + 1) * size])
            mark = f"/*i{axis - 1}={i % dimensions[axis - 1]}*/ " if 0 < axis < rank - 1 else ""
            mark = mark if rank > 3 else ""
            spaced = f"{{ {mark}}}" if mark and not items else f"{{ {mark}{items} }}"
            grouped.append(f"{{{items}}}" if tight else spaced)
        rows = grouped
    if 0 in dimensions[: rank - 1] and dimensions[0] == 0:
        return "{  }"
    return rows[0]
