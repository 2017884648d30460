"""Fourier transforms of a few lines whose length has a large prime factor.

Such a transform is a convolution, which transforms of another length compute. Kernels that
transform as many lines at a time as a vector has lanes do the same within, where there are as many
lines and they stay in the caches. Source: L. Bluestein (1970), "A linear filtering approach to the
computation of discrete Fourier transform".
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Fft
from lowtide.ir.literal import DTYPES
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander
from lowtide.transforms.simplify.support import Made

LEAST_LENGTH: Final = 64
"""Shorter lines take no time worth the while."""

FEW_LINES: Final = 4
"""So many fill at most half of a vector."""

MOST_LINES: Final = 16
"""So many take no more memory, each by itself, than a vector of them."""

MOST_IN_CACHES: Final = 2048
"""The longest lines of which a vector's worth is convolved in the caches."""

_RADICES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23)


@expander(Opcode.FFT)
def write_rough_fft(x: Instruction, at: Rewriter) -> Made:
    """fft(x) => chirp * ifft(fft(pad(x * chirp)) * filter)

    Those of several dimensions stay, and those of many lines.
    """
    attributes = x.attributes_as(Fft)
    if len(attributes.length) != 1 or not _is_worth_it(x, attributes.length[0]):
        return None
    n, operand = attributes.length[0], at(x.operands[0])
    match attributes.kind:
        case "IRFFT":
            whole = _convolved(at, _whole_line(at, operand, n), n, n, inverse=True)
            return at.build.emit(Opcode.REAL, [whole])
        case "RFFT":
            return _convolved(at, _as_complex(at, operand), n, n // 2 + 1, inverse=False)
    return _convolved(at, operand, n, n, inverse=attributes.kind == "IFFT")


def _is_worth_it(x: Instruction, n: int) -> bool:
    lines = prod(x.shape.dimensions[:-1])
    most = MOST_LINES if n > MOST_IN_CACHES else FEW_LINES
    return 0 < lines <= most and n >= LEAST_LENGTH and _rest(n) > 1


def _rest(n: int) -> int:
    """What is left of n without its small prime factors."""
    for radix in _RADICES:
        while n % radix == 0:
            n //= radix
    return n


def smooth_length(least: int) -> int:
    """Return the least number from `least` on whose prime factors are 2, 3 and 5."""
    best = 1 << (least - 1).bit_length()
    fives = 1
    while fives < best:
        odd = fives
        while odd < best:
            best = min(best, odd << (-(-least // odd) - 1).bit_length())
            odd *= 3
        fives *= 5
    return best


def _as_complex(at: Rewriter, x: Op) -> Op:
    zero = at.build.constant(0, x.element_type)
    return at.build.complex(x, at.build.broadcast(zero, x.shape.dimensions, ()))


def _whole_line(at: Rewriter, half: Op, n: int) -> Op:
    """The transform of a real line, of which the first half is given.

    The imaginary parts of its first number, and of the middle one, do not count.
    """
    build, last = at.build, half.shape.rank - 1
    inner = _between(at, half, 1, (n + 1) // 2)
    flipped = build.reverse(inner, [last])
    ends = [build.emit(Opcode.REAL, [_between(at, half, 0, 1)])]
    if n % 2 == 0:
        ends.append(build.emit(Opcode.REAL, [_between(at, half, n // 2, n // 2 + 1)]))
    first, *middle = [_as_complex(at, x) for x in ends]
    real, imaginary = (build.emit(x, [flipped]) for x in (Opcode.REAL, Opcode.IMAG))
    return build.concatenate([first, inner, *middle, build.complex(real, -imaginary)], last)


def _between(at: Rewriter, x: Op, start: int, limit: int) -> Op:
    sizes = x.shape.dimensions
    starts, limits = [0] * len(sizes), list(sizes)
    starts[-1], limits[-1] = start, limit
    return at.build.slice(x, starts, limits)


def _convolved(at: Rewriter, x: Op, n: int, kept: int, *, inverse: bool) -> Op:
    """The first `kept` numbers of the transform of complex lines of length n."""
    build, type_ = at.build, x.element_type
    length = smooth_length(2 * n - 1)
    chirp, filter_ = chirp_and_filter(n, length)
    if inverse:
        chirp, filter_ = np.conj(chirp), np.conj(filter_)
    scale = n if inverse else 1
    padding = [(0, 0)] * (x.shape.rank - 1) + [(0, length - n)]
    padded = build.pad(_times(at, x, chirp), build.constant(0, type_), padding)
    kinds = ("IFFT", "FFT") if inverse else ("FFT", "IFFT")
    product = _times(at, build.fft(padded, kinds[0], [length]), filter_)
    line = _between(at, build.fft(product, kinds[1], [length]), 0, kept)
    return _times(at, line, chirp[:kept] / scale)


def _times(at: Rewriter, x: Op, factors: np.ndarray) -> Op:
    """Lines with each number times its factor."""
    made = at.build.constant(factors.astype(DTYPES[x.element_type]), x.element_type)
    return x * at.build.broadcast(made, x.shape.dimensions, [x.shape.rank - 1])


def chirp_and_filter(n: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(-pi i k^2 / n), and the transform of what it is convolved with."""
    k = np.arange(n, dtype=np.int64)
    chirp = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
    whole = np.zeros(length, np.complex128)
    whole[:n] = np.conj(chirp)
    whole[length - n + 1 :] = np.conj(chirp[:0:-1])
    return chirp, np.fft.fft(whole)


RULES: Final = (write_rough_fft,)
