"""Records, atomics and arrays: memory that native code and Python share, defined once.

A record is a class of `ctypes.Structure`, made from its annotations: Python outside of native code
reads and writes its fields as numbers, pointers among them. In native functions a name annotated
with a record is a reference to one, or None where the annotation says so.
"""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")


class NativeError(Exception):
    """Native code has something that the language lacks, with the file and the line."""


Address: TypeAlias = int
"""The address of a byte, 0 for none: 64 bits, with which one may compute."""

I8: TypeAlias = int
I16: TypeAlias = int
I32: TypeAlias = int
U8: TypeAlias = int
U16: TypeAlias = int
U32: TypeAlias = int
"""Numbers of fewer bits in memory, in parameters and in results. All that is computed has 64, and
wraps around."""

F16Bits: TypeAlias = int
F32Bits: TypeAlias = int
F64Bits: TypeAlias = int
BF16Bits: TypeAlias = int
BF16PairBits: TypeAlias = int
"""The bits of parameters and results that are floats to other code, as a number without a sign."""

FLOATS: Final[dict[str, tuple[int, str]]] = {
    "F16Bits": (16, "half"),
    "F32Bits": (32, "float"),
    "F64Bits": (64, "double"),
    "BF16Bits": (16, "bfloat"),
    "BF16PairBits": (32, "<2 x bfloat>"),
}
"""How many bits there are by annotation, and LLVM's type of what they are bits of."""

WIDTHS: Final[dict[str, tuple[int, bool]]] = {
    "int": (64, True),
    "Address": (64, True),
    **{f"I{bits}": (bits, True) for bits in (8, 16, 32)},
    **{f"U{bits}": (bits, False) for bits in (8, 16, 32)},
}
"""The bits of numbers by annotation, and whether they have a sign."""

_FIELDS: Final[dict[str, Any]] = {
    "bool": ctypes.c_bool,
    "float": ctypes.c_double,
    **{
        name: getattr(ctypes, f"c_{'' if signed else 'u'}int{bits}")
        for name, (bits, signed) in WIDTHS.items()
    },
}
"""What fields are in memory; all others are pointers."""


class Order(Enum):
    """What a thread that sees an atomic operation sees besides; the value is LLVM's word."""

    RELAXED = "monotonic"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"


RELAXED: Final = Order.RELAXED
ACQUIRE: Final = Order.ACQUIRE
RELEASE: Final = Order.RELEASE
ACQ_REL: Final = Order.ACQ_REL
SEQ_CST: Final = Order.SEQ_CST


class Atomic(Generic[T]):
    """A place that several threads read and write; each operation names its order."""

    def load(self, order: Order) -> T:
        """Return what is there."""
        raise NotImplementedError

    def store(self, value: T, order: Order) -> None:
        """Put a value there."""
        raise NotImplementedError

    def exchange(self, value: T, order: Order) -> T:
        """Put a value there; return what was there."""
        raise NotImplementedError

    def compare_exchange(self, expected: T, value: T, order: Order) -> T:
        """Put a value there if `expected` is there; return what was there in either case."""
        raise NotImplementedError

    def add(self: Atomic[int], value: int, order: Order) -> int:
        """Add to the number that is there; return what it was."""
        raise NotImplementedError

    def raise_to(self: Atomic[int], value: int, order: Order) -> int:
        """Put the greater of two numbers there; return what was there."""
        raise NotImplementedError


class NativeItems(Generic[T]):
    """Elements one behind the other, from 0: numbers, pointers to records, or atomics in place."""

    def __getitem__(self, number: int) -> T:
        raise NotImplementedError

    def __setitem__(self, number: int, value: T) -> None:
        raise NotImplementedError


class NativeRecords(Generic[T]):
    """Records one behind the other, from 0; a subscript refers to one of them where it lies."""

    def __getitem__(self, number: int) -> T:
        raise NotImplementedError


class Inline:
    """How many elements of an array lie within a record, in place of a pointer to them."""

    def __init__(self, count: int) -> None:
        self.count = count


def inline(count: int) -> Any:
    """Return the default of a field whose elements, so many, lie within the record."""
    return Inline(count)


class _RecordType(type(ctypes.Structure)):  # type: ignore[misc]
    """The type of records: fields come from annotations, those of the base first."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        texts: dict[str, str] = namespace.get("__annotations__", {})
        counts = {x: y.count for x, y in namespace.items() if isinstance(y, Inline)}
        for inside in counts:
            del namespace[inside]
        namespace["_fields_"] = [(x, _field(y, counts.get(x))) for x, y in texts.items()]
        namespace["texts"], namespace["inlined"] = texts, frozenset(counts)
        return super().__new__(cls, name, bases, namespace)


if TYPE_CHECKING:
    _Base = ctypes.Structure
else:
    _Base = _RecordType("_Base", (ctypes.Structure,), {})


class NativeRecord(_Base):
    """Base of records.

    Fields are numbers, records (a pointer to one), atomics, arrays (a pointer to the first element,
    or the elements themselves where the value is `inline(count)`), and functions by a name for a
    `Callable`.
    """

    if TYPE_CHECKING:
        texts: ClassVar[dict[str, str]]
        """The annotations of its own fields, by name."""
        inlined: ClassVar[frozenset[str]]
        """The fields whose elements lie within it."""


def make(record: type[NativeRecord], **values: int) -> Any:
    """Return a new record of Python's, zeros but for some fields; pointers are numbers."""
    return record(**values)


def view(record: type[NativeRecord], address: Address) -> Any:
    """Return the record at an address as Python sees it: pointers are numbers."""
    return record.from_address(address)


def _field(text: str, count: int | None) -> Any:
    """What a field is in memory."""
    if count is not None:
        return _plain(text.partition("[")[2].removesuffix("]")) * count
    return _plain(text)


def _plain(text: str) -> Any:
    """What is in memory for an annotation: a pointer where it is no number, atomic or not."""
    if text.startswith("Atomic["):
        return _plain(text[len("Atomic[") : -1])
    return _FIELDS.get(text, ctypes.c_int64)


def offset(record: type[NativeRecord], name: str) -> int:
    """Return where a field of a record lies, in bytes."""
    found: int = getattr(record, name).offset
    return found
