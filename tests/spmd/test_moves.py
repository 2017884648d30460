"""Arrays moved from any tiling to any other one hold the right tiles, on uneven grids too."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.ir import ElementType, Module, Opcode, array_shape, tuple_shape
from lowtide.ir.attributes import Parameter
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.spmd.emitter import DeviceProgram, Emitter
from lowtide.spmd.written import WrittenArray
from lowtide.verifier import verify

SIZES = (24, 48)
SHAPE = array_shape(ElementType.F32, SIZES)
VALUES = np.arange(24 * 48, dtype=np.float32).reshape(SIZES)
GRIDS = ((2, 2), (2, 3), (3, 2), (2, 3, 2), (3, 2, 2), (2, 2, 2))


def emitter_on(grid: DeviceGrid) -> tuple[Module, Emitter]:
    module = Module("m")
    module.num_partitions = grid.count
    entry = module.add_computation("e")
    module.entry = entry
    return module, Emitter(DeviceProgram(module, grid), entry)


def results(module: Module, made: Sequence, arguments: Sequence = ()) -> list[list[np.ndarray]]:
    """What each device has of some instructions."""
    shape = tuple_shape([x.shape for x in made])
    module.entry.root = module.entry.add(Opcode.TUPLE, shape, tuple(made))
    verify(module)
    found = evaluate_on_devices(module, [arguments] * module.num_partitions)
    return [[np.asarray(x) for x in device] for device in found]


def drawn_tiling(rng: random.Random, grid: DeviceGrid, with_terms: bool) -> Tiling:
    """Axes at random in each dimension, some of them perhaps terms of a sum."""
    parts: list[list[int]] = [[] for _ in range(4)]
    for axis in rng.sample(range(len(grid.sizes)), len(grid.sizes)):
        parts[rng.choice((0, 0, 1, 1, 2, 3))].append(axis)
    terms = tuple(sorted(parts[3])) if with_terms else ()
    return Tiling((tuple(parts[0]), tuple(parts[1])), terms)


def tile(grid: DeviceGrid, tiling: Tiling, device: int) -> np.ndarray:
    places = [grid.position(device, axes) for axes in tiling.axes]
    sizes = [n // grid.extent(axes) for n, axes in zip(SIZES, tiling.axes, strict=True)]
    return VALUES[tuple([slice(p * n, p * n + n) for p, n in zip(places, sizes, strict=True)])]


@pytest.mark.parametrize("sizes", GRIDS)
@pytest.mark.parametrize("seed", range(2))
def test_each_device_has_its_tile_after_any_moves(sizes: tuple[int, ...], seed: int) -> None:
    rng, grid = random.Random(seed), DeviceGrid(sizes)
    module, emitter = emitter_on(grid)
    given = module.entry.add(Opcode.PARAMETER, SHAPE, (), Parameter(0))
    made, wanted = [], []
    for _ in range(24):
        form = replicated(2)
        x = given
        for step in range(3):
            target = drawn_tiling(rng, grid, with_terms=step == 1)
            x = WrittenArray.of(emitter, SHAPE, form, x).to(target)
            form = target
        made.append(x)
        wanted.append(form)
    for device, found in enumerate(results(module, made, [VALUES])):
        for value, tiling in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(value, tile(grid, tiling, device), str(tiling))


@pytest.mark.parametrize("sizes", GRIDS)
def test_positions_and_offsets_are_those_of_the_grid(sizes: tuple[int, ...]) -> None:
    """Of all lists of axes and several lengths in one program, where equal ones are made once."""
    rng, grid = random.Random(0), DeviceGrid(sizes)
    module, emitter = emitter_on(grid)
    axes = range(len(sizes))
    lists = [(), *[tuple(rng.sample(axes, rng.randint(1, len(sizes)))) for _ in range(12)]]
    made, wanted = [], []
    for own in lists:
        for length in (1, 3, 5):
            made.append(emitter.offset(own, length))
            wanted.append((own, length))
    for device, found in enumerate(results(module, made)):
        for value, (own, length) in zip(found, wanted, strict=True):
            assert value == length * grid.position(device, own), (own, length)


def test_equal_numbers_of_other_shapes_are_apart() -> None:
    module, emitter = emitter_on(DeviceGrid((2,)))
    sizes = [(), (2,), (3,), (2, 3), (3, 2), (3, 3)]
    numbers = [np.float32(1), np.float32(2), np.int32(1)]
    pairs = [(n, s) for n in numbers for s in sizes]
    made = [emitter.broadcast(emitter.constant(n), s) for n, s in pairs]
    for found in results(module, made):
        for value, (number, shape) in zip(found, pairs, strict=True):
            assert (value.shape, value.dtype) == (shape, number.dtype)
            assert (value == number).all()
