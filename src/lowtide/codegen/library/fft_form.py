"""The form of an fft: its one-dimensional transforms, their lines, and the place of these.

Source of the split into two shorter transforms: D. Bailey (1990), "FFTs in external or hierarchical
memory".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from math import isqrt, prod
from typing import Final

from lowtide.ir import Instruction
from lowtide.ir.attributes import Fft
from lowtide.records import dataclass

RADICES: Final = (4, 2, 3, 5, 7, 11, 13, 17, 19, 23)
"""The lengths of transforms that are written out; greater primes go by convolution."""

LEAST_FOLDED: Final = 1024
"""The least length of a few real lines whose halves are transformed in two passes."""


@dataclass(frozen=True, slots=True)
class PassLimits:
    """What a target transforms at once: so many lines, of lengths up to `longest`.

    Lines of real numbers, as complex ones of two neighbours each, are up to `longest_halved` long.
    `folds` is whether a pass of their own may put the halves of real lines together.
    """

    lanes: int
    longest: int
    longest_halved: int
    folds: bool = True


class LinesPlace(Enum):
    """Where the lines of a pass lie: the operand, the result, or one of two arrays in scratch.

    The operand or the result may be complex numbers that are pairs of neighbours. `OWN` is an array
    of the thread, for passes that go through one group after the other.
    """

    OPERAND = auto()
    OPERAND_PAIRS = auto()
    RESULT = auto()
    RESULT_PAIRS = auto()
    INPUT = auto()
    HALF_WAY = auto()
    OWN = auto()


@dataclass(frozen=True, slots=True)
class Lines:
    """Where lines lie in an array of elements.

    Element i of line b of group a lies at
    `a * group + b // inner * outer + b % inner + i * step`.
    """

    place: LinesPlace
    group: int
    inner: int
    outer: int
    step: int


@dataclass(frozen=True, slots=True)
class FftPass:
    """Transforms of length n along `groups` times `count` lines.

    Inputs are real or complex, or the first half of what is symmetric (`extended`); of the results
    those below `kept` are stored. With `twiddle`, result k of line b is turned by
    exp(-2 pi i k (b // twiddle_inner) / twiddle). With `limit`, what is stored is result k of line
    b where `k * limit_step + b` is less. With `halved`, the real side is n / 2 complex numbers, of
    neighbours each, whose transform has half the length.
    """

    n: int
    groups: int
    count: int
    source: Lines
    target: Lines
    kept: int
    inverse: bool
    scale: float = 1.0
    extended: bool = False
    twiddle: int = 0
    twiddle_inner: int = 1
    limit: int = 0
    limit_step: int = 0
    halved: bool = False

    @property
    def length(self) -> int:
        """The length of the transforms that are computed."""
        return self.n // 2 if self.halved else self.n


@dataclass(frozen=True, slots=True)
class FoldPass:
    """Transforms of 2 `half` real numbers from or to those of `half` complex ones, in `groups`.

    With `extended` the numbers to transform back, `half` of them in a group, are made of half a
    transform; else half a transform is made, in place, of the complex one. In halves of transforms
    each group has half + 1 places.
    """

    half: int
    groups: int
    source: LinesPlace
    target: LinesPlace
    extended: bool

    @property
    def kept(self) -> int:
        """The numbers of a group that are stored."""
        return self.half if self.extended else self.half + 1

    @property
    def pairs(self) -> int:
        """The number of pairs of opposite places; in the middle one may be opposite to itself."""
        return self.half // 2 + 1


def factors_of(n: int) -> list[int] | None:
    """Return radices whose product is n, None where a prime among them is too large."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found if n == 1 else None


def halves_of(n: int) -> tuple[int, int] | None:
    """Return two factors of n near its root, both made of small primes, None if there are none."""
    for first in range(isqrt(n), 3, -1):
        if n % first == 0 and factors_of(first) and factors_of(n // first):
            return first, n // first
    return None


def passes_of(instruction: Instruction, limits: PassLimits) -> tuple[FftPass | FoldPass, ...]:
    """Return the passes of an fft in turn.

    Those that are longer than the limits say are split in two where they can be.
    """
    attributes = instruction.attributes_as(Fft)
    kind, lengths = attributes.kind, attributes.length
    given = instruction.operands[0].shape.dimensions
    result = instruction.shape.dimensions
    rank = len(result)
    axes = list(range(rank - len(lengths), rank))
    inverse = kind in ("IFFT", "IRFFT")
    ordered = axes if kind == "IRFFT" else axes[::-1]
    found: list[FftPass | FoldPass] = []
    sizes = given
    place = LinesPlace.OPERAND
    for number, axis in enumerate(ordered):
        is_last = number == len(ordered) - 1
        to = LinesPlace.INPUT if kind == "IRFFT" and not is_last else LinesPlace.RESULT
        n = lengths[axis - rank + len(lengths)]
        after = (
            (*sizes[:axis], result[axis], *sizes[axis + 1 :])
            if _is_real(kind, axis, rank)
            else sizes
        )
        extended = kind == "IRFFT" and is_last
        one = _whole(sizes, after, axis, n, (place, to), inverse, extended, limits.lanes)
        found += _split(one, sizes, after, axis, limits)
        sizes, place = after, to
    return tuple(found)


def _is_real(kind: str, axis: int, rank: int) -> bool:
    """Whether the size of a dimension changes: it is real on one side."""
    return kind in ("RFFT", "IRFFT") and axis == rank - 1


def _whole(
    sizes: Sequence[int],
    after: Sequence[int],
    axis: int,
    n: int,
    places: tuple[LinesPlace, LinesPlace],
    inverse: bool,
    extended: bool,
    lanes: int,
) -> FftPass:
    """One pass along a dimension."""
    before, behind = prod(sizes[:axis]), prod(sizes[axis + 1 :])
    lines = []
    for place, shape in zip(places, (sizes, after), strict=True):
        length = shape[axis] * behind
        if behind >= lanes:
            lines.append(Lines(place, length, behind, 0, behind))
        else:
            lines.append(Lines(place, 0, behind, length, behind))
    groups, count = (before, behind) if behind >= lanes else (1, before * behind)
    scale = 1.0 / n if inverse else 1.0
    is_real = extended or sizes[axis] != after[axis]
    return FftPass(
        n,
        groups,
        count,
        lines[0],
        lines[1],
        after[axis],
        inverse,
        scale,
        extended,
        halved=is_real and n % 2 == 0 and factors_of(n // 2) is not None,
    )


def _split(
    whole: FftPass, sizes: Sequence[int], after: Sequence[int], axis: int, limits: PassLimits
) -> list[FftPass | FoldPass]:
    """The pass, or several where there are few lines, or long ones."""
    n = whole.n
    few = 2 * whole.groups * whole.count <= limits.lanes and n >= 64
    most = limits.longest_halved if whole.halved else limits.longest
    if not few and whole.length <= most:
        return [whole]
    if whole.halved and limits.folds and n >= LEAST_FOLDED and (halves := halves_of(n // 2)):
        return _folded(whole, halves, prod(sizes[:axis]))
    halves = None if whole.extended else halves_of(n)
    if halves is None:
        return [whole]
    before, behind, kept = prod(sizes[:axis]), prod(sizes[axis + 1 :]), after[axis]
    source = (whole.source.place, n * behind)
    one, two = _in_two(whole, halves, (before, behind), source, (whole.target.place, kept * behind))
    if kept < n:
        two = replace(two, limit=kept, limit_step=halves[0] * behind)
    return [one, two]


def _folded(whole: FftPass, halves: tuple[int, int], groups: int) -> list[FftPass | FoldPass]:
    """Two passes along pairs of neighbours, and one that puts real lines together or apart."""
    half = whole.n // 2
    if whole.extended:
        place = whole.source.place
        pairs = (LinesPlace.RESULT_PAIRS, half)
        apart = FoldPass(half, groups, place, LinesPlace.RESULT_PAIRS, extended=True)
        return [apart, *_in_two(whole, halves, (groups, 1), pairs, pairs)]
    source, target = (LinesPlace.OPERAND_PAIRS, half), (LinesPlace.RESULT, half + 1)
    together = FoldPass(half, groups, LinesPlace.RESULT, LinesPlace.RESULT, extended=False)
    return [*_in_two(whole, halves, (groups, 1), source, target), together]


def _in_two(
    whole: FftPass,
    halves: tuple[int, int],
    around: tuple[int, int],
    source: tuple[LinesPlace, int],
    target: tuple[LinesPlace, int],
) -> tuple[FftPass, FftPass]:
    """Two passes in the place of one along a dimension, of the product of two lengths.

    `around` are the numbers of elements before and behind the dimension; source and target are
    where lines lie, and how far groups are apart.
    """
    (first, second), (before, behind) = halves, around
    n, columns, rows = first * second, second * behind, first * behind
    one = replace(
        whole,
        n=first,
        groups=before,
        count=columns,
        source=Lines(*source, columns, 0, columns),
        target=Lines(LinesPlace.HALF_WAY, n * behind, columns, 0, columns),
        kept=first,
        scale=1.0,
        extended=False,
        twiddle=n,
        twiddle_inner=behind,
        halved=False,
    )
    two = replace(
        whole,
        n=second,
        groups=before,
        count=rows,
        source=Lines(LinesPlace.HALF_WAY, n * behind, behind, second * behind, behind),
        target=Lines(*target, rows, 0, rows),
        kept=second,
        extended=False,
        halved=False,
    )
    return one, two
