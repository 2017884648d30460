"""Regions of images whose number of samples depends on their sizes, and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lowtide.ir.literal import Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


@host("Det")
def determinant(call: NodeCall) -> Sequence[Value]:
    """Give the determinants of matrices."""
    x = np.asarray(call.input(0))
    return [np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)]


@host("RoiAlign")
def roi_align(call: NodeCall) -> Sequence[Value]:
    """Give for each region the means, or the greatest, of samples in its bins."""
    x, rois, batches = [np.asarray(call.input(i)) for i in range(3)]
    usual = "half_pixel" if not 0 < call.node.version < 16 else "output_half_pixel"
    is_half = call.attribute("coordinate_transformation_mode", usual) == "half_pixel"
    sizes = [call.attribute(f"output_{k}", 1) for k in ("height", "width")]
    scale = call.attribute("spatial_scale", 1.0)
    result = np.zeros((len(rois), x.shape[1], *sizes), x.dtype)
    for number, (roi, batch) in enumerate(zip(rois.astype(np.float64), batches, strict=True)):
        corners = roi * scale - (0.5 if is_half else 0.0)
        starts, ends = corners[[1, 0]], corners[[3, 2]]
        lengths = ends - starts if is_half else np.maximum(ends - starts, 1.0)
        counts = [
            call.attribute("sampling_ratio", 0) or max(math.ceil(n / m), 1)
            for n, m in zip(lengths, sizes, strict=True)
        ]
        rows, columns = [
            _samples(start, length / m, m, k, n)
            for start, length, m, k, n in zip(
                starts, lengths, sizes, counts, x.shape[2:], strict=True
            )
        ]
        result[number] = _pooled(call, x[int(batch)], rows, columns)
    return [result]


def _samples(start: float, step: float, bins: int, count: int, size: int) -> tuple[Array, ...]:
    """Both neighbours of each sample, [bins, count], and the weight of each of them."""
    at = start + step * (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count)
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.minimum(np.floor(at).astype(int), max(size - 2, 0))
    high = np.minimum(low + 1, size - 1)
    share = at - low
    return low, high, (1 - share) * inside, share * inside


def _pooled(call: NodeCall, image: Array, rows: Sequence[Array], columns: Sequence[Array]) -> Array:
    parts = []
    for i in range(2):
        for j in range(2):
            values = image[:, rows[i][:, None, :, None], columns[j][None, :, None, :]]
            weight = rows[2 + i][:, None, :, None] * columns[2 + j][None, :, None, :]
            parts.append(values * weight)
    if call.attribute("mode", "avg") == "avg":
        return np.asarray(sum(parts).mean((3, 4)))
    return np.asarray(np.maximum.reduce(parts).max((3, 4)))
