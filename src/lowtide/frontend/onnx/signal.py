"""Ops of ONNX on signals: Fourier transforms, and the weights of mel bins."""

from __future__ import annotations

import math

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing
from lowtide.frontend.graphs.shared.arrays import sliced
from lowtide.frontend.graphs.shared.broadcasting import along, scalar
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES

_FULL, _HALF_INVERSE = ("FFT", "IFFT"), "IRFFT"


def _as_complex(b: Builder, x: Op) -> Op:
    """The numbers whose parts are the last dimension, of size 1 or 2, in c128.

    Sums of many numbers that cancel are too far off in c64.
    """
    sizes = x.dimensions[:-1]
    parts = [
        b.reshape(sliced(b, x, [*[slice(None)] * (x.rank - 1), slice(i, i + 1)]), sizes)
        for i in range(x.dimensions[-1])
    ]
    wide = [b.convert(y, ElementType.F64) for y in parts]
    zero = b.broadcast(scalar(b, 0, wide[0]), sizes, [])
    return b.complex(wide[0], wide[1] if len(wide) > 1 else zero)


def _as_parts(b: Builder, x: Op) -> Op:
    wide = [b.reshape(y, [*x.dimensions, 1]) for y in (b.real(x), b.imag(x))]
    return b.concatenate(wide, x.rank)


def _with_length(b: Builder, x: Op, length: int) -> Op:
    """X cut or filled with zeros to a length along its last dimension."""
    n = x.dimensions[-1]
    if length <= n:
        return sliced(b, x, [*[slice(None)] * (x.rank - 1), slice(length)])
    return b.pad(x, scalar(b, 0, x), [*[(0, 0)] * (x.rank - 1), (0, length - n)])


def _transformed(b: Builder, x: Op, length: int, *, inverse: bool, onesided: bool) -> Op:
    """The transform of complex numbers along the last dimension; real ones for half a spectrum."""
    if inverse and onesided:
        return b.fft(_with_length(b, x, length // 2 + 1), _HALF_INVERSE, [length])
    found = b.fft(_with_length(b, x, length), _FULL[inverse], [length])
    return _with_length(b, found, length // 2 + 1) if onesided else found


@op("DFT", domain=DOMAIN, inputs=(1, 3))
def dft(context: OpKernelContext) -> None:
    """Give the Fourier transform of a signal, complex numbers as two in the last dimension."""
    b, x = context.builder, context.input(0)
    usual = context.attribute("axis", integer, 1 if context.version < 20 else -2)
    axis = context.axis(context.one_int(2) if context.has_input(2) else usual, x.rank)
    inverse, onesided = [context.attribute(y, flag, False) for y in ("inverse", "onesided")]
    n = x.dimensions[axis]
    own = 2 * (n - 1) if inverse and onesided else n
    length = context.one_int(1) if context.has_input(1) else own
    signal = _as_complex(b, x)
    order = [*[i for i in range(signal.rank) if i != axis], axis]
    back = [order.index(i) for i in range(signal.rank)]
    found = _transformed(b, b.transpose(signal, order), length, inverse=inverse, onesided=onesided)
    found = b.transpose(found, back)
    is_real = inverse and onesided
    result = b.reshape(found, [*found.dimensions, 1]) if is_real else _as_parts(b, found)
    context.set_output(0, b.convert(result, x.element_type))


@op("STFT", domain=DOMAIN, inputs=(2, 4))
def stft(context: OpKernelContext) -> None:
    """Give the transforms of pieces of a signal [n, length, parts] that overlap.

    PyTorch's exporter leaves out the last dimension of real signals.
    """
    b, x = context.builder, context.input(0)
    if x.rank == 2:
        x = b.reshape(x, [*x.dimensions, 1])
    step, window = context.one_int(1), context.optional(2)
    length = context.one_int(3) if context.has_input(3) else None
    if length is None:
        if window is None:
            raise context.error("either a window or frame_length has to be given")
        length = window.dimensions[0]
    count = 1 + (x.dimensions[1] - length) // step
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = indexing.take(b, _as_complex(b, x), b.constant(places), 1)
    if window is not None:
        window = b.convert(window, ElementType.F64)
        zero = b.broadcast(scalar(b, 0, window), window.dimensions, [])
        frames = frames * along(b, b.complex(window, zero), 2, frames.dimensions)
    onesided = context.attribute("onesided", flag, True)
    found = _transformed(b, frames, length, inverse=False, onesided=onesided)
    context.set_output(0, b.convert(_as_parts(b, found), x.element_type))


@op("MelWeightMatrix", domain=DOMAIN, inputs=5)
def mel_weight_matrix(context: OpKernelContext) -> None:
    """Give the weights [bins of the spectrum, mel bins] of triangles that overlap."""
    bins, length, rate = [context.one_int(i) for i in range(3)]
    low, high = [float(context.constant(i)) for i in (3, 4)]
    kind = DTYPES[context.element_type("output_datatype", ElementType.F32)]
    mels = [2595 * math.log10(1 + x / 700) for x in (low, high)]
    edges = mels[0] + np.arange(bins + 2) * (mels[1] - mels[0]) / (bins + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = np.floor((length + 1) * hertz / rate).astype(int)
    result = np.zeros((length // 2 + 1, bins))
    for i in range(bins):
        left, center, right = places[i : i + 3]
        if center == left:
            result[center, i] = 1
        else:
            rising = np.arange(left, center + 1)
            result[rising, i] = (rising - left) / (center - left)
        falling = np.arange(center, right)
        if right > center:
            result[falling, i] = (right - falling) / (right - center)
    context.set_output(0, result.astype(kind))
