"""Checks and small computations on shapes that all families share; they raise ShapeError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape, array_shape, tuple_shape

Dimension = tuple[int, bool]
"""The size of a dimension (or its bound) and whether it is dynamic."""


def array(shape: Shape, what: str) -> Shape:
    """Return `shape`, which must be an array."""
    if not shape.is_array:
        raise ShapeError(f"{what} must be an array, not {plain(shape)}")
    return shape


def plain(shape: Shape) -> str:
    """Return the text of a shape without layouts, for messages."""
    return shape.text(layout=False)


def scalar(shape: Shape, what: str) -> Shape:
    """Return `shape`, which must be an array of rank 0."""
    if not shape.is_array or shape.dimensions:
        raise ShapeError(f"{what} must be a scalar, not {plain(shape)}")
    return shape


def token(shape: Shape, what: str) -> Shape:
    """Return `shape`, which must be a token."""
    if not shape.is_token:
        raise ShapeError(f"{what} must be a token, not {plain(shape)}")
    return shape


def integral(shape: Shape, what: str) -> Shape:
    """Return `shape`, which must be an array of integers."""
    if not array(shape, what).element_type.is_integer:
        raise ShapeError(f"{what} must hold integers, not {plain(shape)}")
    return shape


def tuple_of(shape: Shape, what: str, least: int = 0) -> tuple[Shape, ...]:
    """Return the elements of `shape`, which must be a tuple of at least `least` elements."""
    if not shape.is_tuple or len(shape.tuple_shapes) < least:
        size = f" of at least {least} elements" if least else ""
        raise ShapeError(f"{what} must be a tuple{size}, not {plain(shape)}")
    return shape.tuple_shapes


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """Return the only shape, or the tuple of all of them."""
    return shapes[0] if len(shapes) == 1 else tuple_shape(list(shapes))


def is_dynamic(shape: Shape, dimension: int) -> bool:
    """Whether one dimension of an array is dynamic."""
    return bool(shape.dynamic) and shape.dynamic[dimension]


def dimensions_of(shape: Shape) -> list[Dimension]:
    """Return (size, dynamic) of each dimension of an array."""
    flags = shape.dynamic or (False,) * shape.rank
    return list(zip(shape.dimensions, flags, strict=True))


def make_array(element_type: ElementType, dimensions: Iterable[Dimension]) -> Shape:
    """Return the row-major array shape with these dimensions."""
    pairs = list(dimensions)
    sizes = tuple([size for size, _ in pairs])
    return array_shape(element_type, sizes, dynamic=tuple([flag for _, flag in pairs]))


def laid_out_as(shape: Shape, model: Shape) -> Shape:
    """Return `shape` with the layout of `model`, an array of equal rank, if it has one."""
    if model.layout is None or model.layout is shape.layout:
        return shape
    result = shape.with_layout(model.layout)
    if shape.element_type is not model.element_type:
        return result.with_element_type(shape.element_type)
    return result


def in_range(dimension: int, shape: Shape, what: str) -> int:
    """Return `dimension`, which must be one of the array `shape`."""
    if not 0 <= dimension < shape.rank:
        raise ShapeError(f"{what} {dimension} is out of range for {plain(shape)}")
    return dimension


def all_in_range(dimensions: Sequence[int], shape: Shape, what: str) -> None:
    """Check that `dimensions` are distinct dimensions of the array `shape`."""
    distinct(dimensions, what)
    for dimension in dimensions:
        in_range(dimension, shape, what)


def distinct(dimensions: Sequence[int], what: str) -> None:
    """Check that no dimension is listed twice."""
    if len(set(dimensions)) != len(dimensions):
        raise ShapeError(f"{what} {listed(dimensions)} names a dimension twice")


def ascending(dimensions: Sequence[int], what: str) -> None:
    """Check that the dimensions are listed in increasing order, none of them twice."""
    if any(a >= b for a, b in pairwise(dimensions)):
        raise ShapeError(f"{what} {listed(dimensions)} must be increasing")


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as `{1,2}`."""
    return "{" + ",".join(map(str, numbers)) + "}"


def same_sizes(a: Shape, b: Shape) -> bool:
    """Whether two arrays have equal dimensions, an unbounded one being equal to any."""
    if a.dimensions == b.dimensions:
        return True
    if a.rank != b.rank:
        return False
    return all(compatible_size(x, y) for x, y in zip(a.dimensions, b.dimensions, strict=True))


def compatible_size(a: int, b: int) -> bool:
    """Whether two sizes are equal, or one of them has no bound."""
    return a == b or UNBOUNDED in (a, b)


def tighter(a: Dimension, b: Dimension) -> Dimension:
    """Return what is known of a dimension that has both sizes: the bounded, dynamic one."""
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    return b if a[0] == UNBOUNDED else a


def same_type(a: ElementType, b: ElementType) -> bool:
    """Whether two element types are equal but perhaps for their floating point precision."""
    return a is b or (a.is_floating and b.is_floating)


def agree(a: Shape, b: Shape, *, exact: bool = False) -> bool:
    """Whether two shapes are equal but for layouts and dynamic sizes.

    Unless `exact`, the floating point precision may differ as well.
    """
    if a.compatible(b):
        return True
    if a.is_tuple or b.is_tuple or a.is_buffer or b.is_buffer:
        if a.element_type is not b.element_type or len(a.tuple_shapes) != len(b.tuple_shapes):
            return False
        pairs = zip(a.tuple_shapes, b.tuple_shapes, strict=True)
        return all(agree(x, y, exact=exact) for x, y in pairs)
    if not same_sizes(a, b):
        return False
    return a.element_type is b.element_type or (
        not exact and same_type(a.element_type, b.element_type)
    )


# -- element types -----------------------------------------------------------------------------

_OVERFLOW_EXPONENT: Final = {
    ElementType.F64: 1024,
    ElementType.F32: 128,
    ElementType.BF16: 128,
    ElementType.F16: 16,
    ElementType.F8E5M2: 16,
    ElementType.F8E5M2FNUZ: 16,
    ElementType.F8E4M3: 8,
    ElementType.F8E4M3FN: 9,
    ElementType.F8E4M3FNUZ: 8,
    ElementType.F8E4M3B11FNUZ: 5,
    ElementType.F8E3M4: 4,
    ElementType.F8E8M0FNU: 128,
    ElementType.F4E2M1FN: 3,
    ElementType.F6E3M2FN: 5,
    ElementType.F6E2M3FN: 3,
}
"""The least power of two that each floating point type cannot hold."""

_SIGNIFICAND_BITS: Final = {
    ElementType.F64: 53,
    ElementType.F32: 24,
    ElementType.BF16: 8,
    ElementType.F16: 11,
    ElementType.F8E5M2: 3,
    ElementType.F8E5M2FNUZ: 3,
    ElementType.F8E4M3: 4,
    ElementType.F8E4M3FN: 4,
    ElementType.F8E4M3FNUZ: 4,
    ElementType.F8E4M3B11FNUZ: 4,
    ElementType.F8E3M4: 5,
    ElementType.F8E8M0FNU: 1,
    ElementType.F4E2M1FN: 2,
    ElementType.F6E3M2FN: 3,
    ElementType.F6E2M3FN: 4,
}
"""The bits of the significand, the implied one included."""

COMPLEX_OF: Final = {whole.part: whole for whole in ElementType if whole.is_complex}
"""The complex type of parts of each type."""


def _rank_of_type(element_type: ElementType) -> tuple[Any, ...]:
    part = element_type.part
    return (
        element_type.is_complex,
        _OVERFLOW_EXPONENT.get(part, -1),
        _SIGNIFICAND_BITS.get(part, -1),
        part.bits,
        part.is_signed,
    )


def higher_precision(a: ElementType, b: ElementType) -> ElementType:
    """Return the one of two types that prevails where both meet.

    Complex over real, then the greater range, the finer significand, the width, the sign.
    """
    return a if a is b or _rank_of_type(a) >= _rank_of_type(b) else b


Predicate = Callable[[ElementType], bool]


def number_kinds(*names: str) -> tuple[Predicate, str]:
    """Return a test for element types of the named kinds, and its words for messages."""
    kinds: dict[str, Predicate] = {
        "pred": lambda x: x is ElementType.PRED,
        "integral": lambda x: x.is_integer,
        "floating": lambda x: x.is_floating,
        "complex": lambda x: x.is_complex,
    }
    chosen = [kinds[name] for name in names]
    return lambda x: any(test(x) for test in chosen), " or ".join(names)


def parameters_match(operands: Sequence[Shape], called: ProgramShape, role: str) -> None:
    """Check that the parameters of a called computation have the shapes of `operands`."""
    if len(called.parameters) != len(operands):
        found = len(called.parameters)
        raise ShapeError(f"{role} must take {len(operands)} parameters, but takes {found}")
    for number, (operand, parameter) in enumerate(zip(operands, called.parameters, strict=True)):
        if not agree(operand, parameter, exact=True):
            raise ShapeError(
                f"{role} has parameter {number} of shape {plain(parameter)}, "
                f"but the operand is {plain(operand)}"
            )
