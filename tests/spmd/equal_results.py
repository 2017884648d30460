"""Whether a partitioned module computes what the whole one does."""

from typing import Any

import numpy as np

from lowtide.checking.communication import check_communication
from lowtide.evaluator.evaluate import evaluate, parameter_leaves
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import value_leaves
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.ir.literal import DTYPES
from lowtide.spmd.partitioner import Partitioned, partition
from lowtide.spmd.shards import cut, joined
from lowtide.transforms.sharding_removal import remove_shardings
from lowtide.verifier import verify

ADD_AND_MAX = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
"""
"""Reducers by these names."""

TOLERANCE = 1e-5


def arguments_for(module: Module, seed: int = 0) -> list[Any]:
    """Return small whole numbers for all leaves of the parameters, so that most sums are exact."""
    random = np.random.default_rng(seed)
    return [
        random.integers(-3, 4, leaf.shape.dimensions).astype(DTYPES[leaf.shape.element_type])
        for leaf in parameter_leaves(module)
    ]


def whole_results(module: Module, arguments: list[Any]) -> list[Any]:
    """Return what the module computes on one device, without its marks for the partitioner."""
    whole = clone_module(module)
    whole.num_partitions = 1
    remove_shardings(whole)
    return [np.asarray(x) for x in value_leaves(evaluate(whole, arguments))]


def check_equal(module: Module, arguments: list[Any] | None = None) -> Partitioned:
    """Partition a module and compare the results, on all devices, with those of the whole one."""
    arguments = arguments_for(module) if arguments is None else arguments
    expected = whole_results(module, arguments)
    before = str(module)
    parts = partition(module)
    assert str(module) == before
    verify(parts.module)
    assert not check_communication([parts.module]).faults
    assert str(parse_hlo(str(parts.module))) == str(parts.module)
    given = [
        cut(x, sharding, parts.grid)
        for x, sharding in zip(arguments, parts.parameters, strict=True)
    ]
    found = evaluate_on_devices(
        parts.module, [[tiles[i] for tiles in given] for i in range(parts.grid.count)]
    )
    leaves = [value_leaves(one) for one in found]
    for number, (whole, sharding) in enumerate(zip(expected, parts.results, strict=True)):
        own = [np.asarray(one[number]) for one in leaves]
        total = joined(own, sharding, parts.grid, whole.shape)
        is_sum = "unreduced" in str(sharding)
        tiles = own if is_sum else cut(total, sharding, parts.grid)
        for tile, mine in zip(tiles, own, strict=True):
            np.testing.assert_array_equal(tile, mine)
        if whole.dtype.kind in "biu":
            np.testing.assert_array_equal(total, whole)
        else:
            scale = np.nanmax(np.abs(whole[np.isfinite(whole)]), initial=1.0)
            np.testing.assert_allclose(total, whole, TOLERANCE, TOLERANCE * scale)
    return parts


def partitioned_text(text: str, arguments: list[Any] | None = None) -> Partitioned:
    """Check a module given as text and return its parts."""
    return check_equal(parse_hlo(text), arguments)
