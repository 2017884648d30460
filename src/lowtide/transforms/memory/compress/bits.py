"""Truth values packed eight to a byte, and unpacked.

Bit b of a byte is the truth value that lies b eighths of a dimension further, so that neighbours
stay neighbours and both ways are elementwise.
"""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode, Shape, array_shape
from lowtide.passes.matching import is_plain

_BITS: Final = 8


def can_pack(shape: Shape) -> bool:
    """Whether some dimension of an array can be divided by eight."""
    return is_plain(shape) and _dimension(shape) is not None


def _dimension(shape: Shape) -> int | None:
    sizes = enumerate(shape.dimensions)
    return next((i for i, size in sizes if size and size % _BITS == 0), None)


def pack(bits: Op) -> Op:
    """Return truth values as u8 of an eighth of the size along the first dimension that allows it.

    Raises ValueError where there is none.
    """
    build, along = bits.builder, _dimension(bits.shape)
    if along is None:
        raise ValueError(f"no dimension of {bits.shape} can be divided by {_BITS}")
    sizes = _split(bits.dimensions, along)
    places = build.iota(array_shape(ElementType.U8, sizes), along)
    spread = build.reshape(build.convert(bits, ElementType.U8), sizes) << places
    zero = build.constant(0, ElementType.U8)
    return build.reduce(spread, zero, build.scalar_computation(Opcode.OR, ElementType.U8), [along])


def unpack(packed: Op, shape: Shape) -> Op:
    """Return the truth values of a shape from what `pack` made of them."""
    build, along = packed.builder, _dimension(shape)
    assert along is not None
    sizes = _split(shape.dimensions, along)
    kept = [i for i in range(len(sizes)) if i != along]
    spread = build.broadcast(packed, sizes, kept)
    places = build.iota(array_shape(ElementType.U8, sizes), along)
    one = build.constant(1, ElementType.U8)
    return build.reshape((spread >> places) & one, shape.dimensions).ne(
        build.constant(0, ElementType.U8)
    )


def _split(sizes: tuple[int, ...], along: int) -> tuple[int, ...]:
    """The sizes with one dimension as two: the place in a byte, and the byte."""
    return (*sizes[:along], _BITS, sizes[along] // _BITS, *sizes[along + 1 :])
