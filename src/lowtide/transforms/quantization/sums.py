"""Sums of products less what zero points add to them, and times scales."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.values import Op
from lowtide.ir import ElementType
from lowtide.passes.rewriting import Rewriter
from lowtide.records import dataclass
from lowtide.transforms.expand.support import summed
from lowtide.transforms.quantization.spreading import Spread


@dataclass(frozen=True, slots=True)
class Slices:
    """A value whose dimension i is dimension `places[i]` of a result; the others repeat it."""

    value: Op
    places: tuple[int, ...]

    def over(self, at: Rewriter, sizes: Sequence[int]) -> Op:
        """Return it in the sizes of the result."""
        if self.places == tuple(range(len(sizes))):
            return self.value
        return at.build.broadcast(self.value, sizes, self.places)


def slices(at: Rewriter, spread: Spread, places: Sequence[int]) -> Slices:
    """Return a spread value over a result, in which dimension d of its array is `places[d]`.

    Dimensions of size 1 of the value go.
    """
    sizes = spread.value.shape.dimensions
    kept = [i for i, n in enumerate(sizes) if n != 1]
    value = at(spread.value)
    if len(kept) < len(sizes):
        value = at.build.reshape(value, [sizes[i] for i in kept])
    return _sorted(at, value, [places[spread.places[i]] for i in kept])


def _sorted(at: Rewriter, value: Op, places: list[int]) -> Slices:
    """A broadcast takes dimensions in the order of the result."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    if order != list(range(len(places))):
        value = at.build.transpose(value, order)
    return Slices(value, tuple([places[i] for i in order]))


def product(at: Rewriter, a: Slices, b: Slices, sizes: Sequence[int]) -> Slices:
    """Return the product of two values, spread out no further than either of them is."""
    if set(a.places) < set(b.places):
        a, b = b, a
    if set(b.places) <= set(a.places):
        own = [sizes[d] for d in a.places]
        inner = Slices(b.value, tuple([a.places.index(d) for d in b.places]))
        return Slices(a.value * inner.over(at, own), a.places)
    whole = tuple(range(len(sizes)))
    return Slices(a.over(at, sizes) * b.over(at, sizes), whole)


def totals(at: Rewriter, x: Op, inner: Sequence[int], places: Sequence[int]) -> Slices:
    """Return the sums of integers along some dimensions, as 32-bit ones.

    `places` says for each dimension of x which one of the result it is.
    """
    wide = at.build.convert(x, ElementType.S32)
    kept = [places[d] for d in range(x.rank) if d not in inner]
    return _sorted(at, summed(wide, sorted(inner)), kept)


def less(at: Rewriter, sums: Op, taken: Slices) -> Op:
    """Return sums minus what is taken from them."""
    return sums - taken.over(at, sums.dimensions)


def scaled(at: Rewriter, sums: Op, factors: Slices) -> Op:
    """Return 32-bit sums times factors, as f32."""
    return at.build.convert(sums, ElementType.F32) * factors.over(at, sums.dimensions)
