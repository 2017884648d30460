"""Matrix products, einsum, and convolutions by the letters of their layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowtide.builder import Builder, BuildError, Op
from lowtide.frontend.graphs.shared.arrays import inserted
from lowtide.frontend.graphs.shared.broadcasting import expand, joined, scalar
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.ir import array_shape
from lowtide.ir.attributes import ConvolutionDimensions, DotDimensions, Window, WindowDimension
from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass


def matmul(b: Builder, x: Op, y: Op) -> Op:
    """Return the product as NumPy's `@`: batches broadcast, vectors are rows or columns."""
    if not x.rank or not y.rank:
        raise BuildError("scalars are multiplied, not contracted")
    left = inserted(b, x, [0]) if x.rank == 1 else x
    right = inserted(b, y, [1]) if y.rank == 1 else y
    batch = joined([left.dimensions[:-2], right.dimensions[:-2]])
    if batch:
        left = expand(b, left, (*batch, *left.dimensions[-2:]))
        right = expand(b, right, (*batch, *right.dimensions[-2:]))
    product = b.matmul(left, right)
    sizes = [*batch]
    sizes += [] if x.rank == 1 else [left.dimensions[-2]]
    sizes += [] if y.rank == 1 else [right.dimensions[-1]]
    return product if len(sizes) == product.rank else b.reshape(product, sizes)


def swapped(b: Builder, x: Op) -> Op:
    """Return matrices transposed: the last two dimensions change places."""
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def conjugate(b: Builder, x: Op) -> Op:
    """Return the conjugate of complex numbers, real numbers as they are."""
    return b.complex(b.real(x), -b.imag(x)) if x.element_type.is_complex else x


# -- convolutions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowShape:
    """How a window moves: sizes, strides, dilations and padding of each spatial dimension."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def window(self, spatial: Sequence[int], rank: int) -> Window:
        """Return the window of HLO over all dimensions of an array."""
        found = [WindowDimension(1)] * rank
        for axis, entry in zip(spatial, self.entries(), strict=True):
            found[axis] = entry
        return Window(tuple(found))

    def entries(self) -> list[WindowDimension]:
        """Return the window of HLO over the spatial dimensions."""
        return [
            WindowDimension(size, stride, low, high, dilation)
            for size, stride, dilation, (low, high) in zip(
                self.sizes, self.strides, self.dilations, self.padding, strict=True
            )
        ]


def same_padding(
    n: int, size: int, stride: int, dilation: int, *, more_before: bool = False
) -> tuple[int, int]:
    """Return the padding with which n elements give ceil(n / stride) positions.

    An odd one comes after the elements, or before them.
    """
    reach = (size - 1) * dilation + 1
    total = max((math.ceil(n / stride) - 1) * stride + reach - n, 0)
    less = total // 2
    return (total - less, less) if more_before else (less, total - less)


def convolution_dimensions(data: str, kernel: str) -> ConvolutionDimensions:
    """Return the roles of dimensions, as letters: N, C in `data`; I, O in `kernel`; else spatial.

    The result is laid out as the data.
    """
    spatial = [x for x in data if x not in "NC"]
    at = tuple([data.index(x) for x in spatial])
    return ConvolutionDimensions(
        data.index("N"),
        data.index("C"),
        at,
        kernel.index("I"),
        kernel.index("O"),
        tuple([kernel.index(x) for x in spatial]),
        data.index("N"),
        data.index("C"),
        at,
    )


def convolve(
    b: Builder, x: Op, kernel: Op, data: str, filters: str, shape: WindowShape, groups: int = 1
) -> Op:
    """Return a convolution of data and kernel with the given layouts."""
    dimensions = convolution_dimensions(data, filters)
    window = Window(tuple(shape.entries()))
    return b.convolution(x, kernel, dimensions, window, groups)


def convolve_transposed(
    b: Builder, x: Op, kernel: Op, data: str, filters: str, shape: WindowShape, groups: int = 1
) -> Op:
    """Return the gradient of a convolution for its input, known as transposed convolution.

    `shape` is that of the convolution whose input is wanted, its padding counted at the result.
    In `filters`, I is the feature dimension of x.
    """
    window = Window(
        tuple(
            [
                WindowDimension(
                    size,
                    1,
                    (size - 1) * dilation - low,
                    (size - 1) * dilation - high,
                    dilation,
                    stride,
                    True,
                )
                for size, stride, dilation, (low, high) in zip(
                    shape.sizes, shape.strides, shape.dilations, shape.padding, strict=True
                )
            ]
        )
    )
    dimensions = convolution_dimensions(data, filters)
    return b.convolution(x, kernel, dimensions, window, groups)


# -- einsum --------------------------------------------------------------------------------------


def einsum(b: Builder, equation: str, operands: Sequence[Op]) -> Op:
    """Return the sum of products that an equation like "bij,bjk->bik" names.

    Operands are contracted from left to right. Raises BuildError for an equation that does not fit.
    """
    terms, result = _terms(equation.replace(" ", ""), operands)
    pairs = [_diagonal(b, x, term) for x, term in zip(operands, terms, strict=True)]
    operands, terms = [x for x, _ in pairs], [term for _, term in pairs]
    value, labels = operands[0], terms[0]
    _check_labels(terms, operands)
    for number in range(1, len(operands)):
        later = {*result, *[x for term in terms[number + 1 :] for x in term]}
        value, labels = _contract(b, value, labels, operands[number], terms[number], later)
    value, labels = _summed(b, value, labels, set(result))
    order = [labels.index(x) for x in result]
    return value if order == list(range(len(order))) else b.transpose(value, order)


def _terms(equation: str, operands: Sequence[Op]) -> tuple[list[str], str]:
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise BuildError(f"the equation {equation!r} is for {len(terms)} operands")
    unused = [x for x in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if x not in equation]
    ranks = [op.rank - len(t) + 3 for t, op in zip(terms, operands, strict=True) if "..." in t]
    dots = "".join(unused[: max(ranks, default=0)])
    spelled = [
        t.replace("...", dots[len(dots) - (op.rank - len(t) + 3) :] if "..." in t else "")
        for t, op in zip(terms, operands, strict=True)
    ]
    if not arrow:
        found = [x for x in "".join(spelled) if x not in dots]
        result = dots + "".join(sorted([x for x in set(found) if found.count(x) == 1]))
    result = result.replace("...", dots)
    unknown = [x for x in result if not any(x in term for term in spelled)]
    if unknown or len(set(result)) != len(result):
        raise BuildError(f"the result {result!r} of {equation!r} does not fit its operands")
    return spelled, result


def _diagonal(b: Builder, x: Op, term: str) -> tuple[Op, str]:
    """An operand without the dimensions whose letters it has already: the diagonal over both."""
    if len(term) != x.rank:
        raise BuildError(f"{term!r} names {len(term)} dimensions of {x.shape}")
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first, second = term.index(label), term.rindex(label)
            if x.dimensions[first] != x.dimensions[second]:
                raise BuildError(f"{label!r} has two sizes in {x.shape}")
            index = array_shape(ElementType.S32, x.dimensions)
            same = b.iota(index, first).eq(b.iota(index, second))
            zero = b.broadcast(scalar(b, 0, x), x.dimensions, [])
            x = reduce(b, "sum", b.select(same, x, zero), [second])
            term = term[:second] + term[second + 1 :]
    return x, term


def _check_labels(terms: Sequence[str], operands: Sequence[Op]) -> None:
    sizes: dict[str, int] = {}
    for term, op in zip(terms, operands, strict=True):
        if len(term) != op.rank:
            raise BuildError(f"{term!r} names {len(term)} dimensions of {op.shape}")
        for label, size in zip(term, op.dimensions, strict=True):
            if sizes.setdefault(label, size) != size:
                raise BuildError(f"{label!r} has sizes {sizes[label]} and {size}")


def _summed(b: Builder, x: Op, labels: str, kept: set[str]) -> tuple[Op, str]:
    axes = [i for i, label in enumerate(labels) if label not in kept]
    if not axes:
        return x, labels
    return reduce(b, "sum", x, axes), "".join([label for label in labels if label in kept])


def _contract(b: Builder, x: Op, left: str, y: Op, right: str, later: set[str]) -> tuple[Op, str]:
    x, left = _summed(b, x, left, later | set(right))
    y, right = _summed(b, y, right, later | set(left))
    batch = [label for label in left if label in right and label in later]
    inner = [label for label in left if label in right and label not in later]
    dimensions = DotDimensions(
        tuple([left.index(i) for i in inner]),
        tuple([right.index(i) for i in inner]),
        tuple([left.index(i) for i in batch]),
        tuple([right.index(i) for i in batch]),
    )
    used = {*batch, *inner}
    rest = [label for label in left + right if label not in used]
    return b.dot(x, y, dimensions), "".join([*batch, *rest])
