"""Programs of several devices, run natively and by the evaluator, whose results must be equal."""

from __future__ import annotations

from typing import Any

import numpy as np

import lowtide
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import value_leaves
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape

ADD = """
add {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  ROOT c = TYPE[] add(a, b)
}
"""

Arguments = list[list[Array]]


def values(shape: Shape, seed: int) -> Array:
    """Return numbers of a shape in which sums are not exact, with some that are not finite."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[shape.element_type]
    if dtype == np.bool_:
        return rng.random(shape.dimensions) < 0.5
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return rng.integers(ends.min, ends.max, shape.dimensions, dtype, endpoint=True)
    found = rng.normal(size=shape.dimensions) * 3
    if dtype.kind == "c":
        return (found + 1j * rng.normal(size=shape.dimensions)).astype(dtype)
    odd = rng.random(shape.dimensions)
    found = np.where(odd < 0.05, np.nan, np.where(odd < 0.1, -0.0, found))
    return np.asarray(found).astype(dtype)


def arguments_of(module: lowtide.Module) -> Arguments:
    """Return other arguments for each device."""
    devices = module.replica_count * module.num_partitions
    shapes = [x.shape for x in parameter_leaves(module)]
    return [
        [values(shape, 100 * device + number) for number, shape in enumerate(shapes)]
        for device in range(devices)
    ]


def same(found: Any, wanted: Any) -> None:
    """Assert that two results have the same bits, whatever those of a NaN are."""
    pairs = list(zip(value_leaves(found), value_leaves(wanted), strict=True))
    assert pairs
    for one, other in pairs:
        a, b = np.asarray(one), np.asarray(other)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        plain = a.dtype.kind not in "fcV"
        nan = np.zeros(a.shape, bool) if plain else np.isnan(a) & np.isnan(b)
        differ = np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8) != np.frombuffer(
            np.ascontiguousarray(b).tobytes(), np.uint8
        )
        rows = differ.reshape(a.size, a.itemsize).any(1).reshape(a.shape) & ~nan
        assert not rows.any(), f"{a[rows][:4]} is not {b[rows][:4]}"


def judge(text: str, **options: Any) -> list[Any]:
    """Return the native results of all devices, which equal the evaluator's."""
    module = lowtide.parse_hlo(text)
    lowtide.verify(module)
    executable = lowtide.compile(module, options=lowtide.Options(cache=False, **options))
    arguments = arguments_of(module)
    found = lowtide.run_on_devices(executable, arguments, timeout_seconds=60)
    for one, other in zip(found, evaluate_on_devices(module, arguments), strict=True):
        same(one, other)
    return found
