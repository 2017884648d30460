"""Random modules with random shardings compute partitioned what they compute whole."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spmd import random_operations
from tests.spmd.equal_results import check_equal

from lowtide.builder.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Module, Opcode, array_shape
from lowtide.ir.attributes import DotDimensions
from lowtide.ir.device_list import IotaDevices
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import grid_of
from lowtide.ir.tilings.sharding_forms import sharding_of
from lowtide.ir.tilings.tiling import Tiling, dividing

MESHES = (2, 3, 4, 6, 8)
SIZES = (1, 2, 3, 4, 6, 8, 12)
MOST_ELEMENTS = 600
MOST_RANK = 4


def random_sharding(source: random.Random, count: int, sizes: tuple[int, ...]) -> Sharding:
    """Return a sharding that divides an array of these sizes.

    Some are of terms of a sum, and of some the devices stand in any order.
    """
    grid = grid_of(count)
    axes: list[tuple[int, ...]] = [()] * len(sizes)
    order = list(range(len(grid.sizes)))
    source.shuffle(order)
    for axis in order:
        place = source.randrange(-1, len(sizes))
        if place >= 0:
            axes[place] = (*axes[place], axis)
    tiling = dividing(grid, Tiling(tuple(axes)), sizes)
    free = [axis for axis in order if axis not in tiling.used]
    if free and source.random() < 0.1:
        tiling = Tiling(tiling.axes, tuple(sorted(free[: source.randrange(1, len(free) + 1)])))
    sharding = sharding_of(tiling, grid)
    if isinstance(sharding.devices, IotaDevices) and source.random() < 0.1:
        listed = sharding.devices.as_list()
        source.shuffle(listed)
        return replace(sharding, devices=tuple(listed))
    return sharding


Maker = Callable[[Builder, random.Random, Op], Op | None]


def _same(b: Builder, source: random.Random, x: Op) -> Op:
    return source.choice([b.add, b.subtract, b.maximum])(x, b.negate(x))


def _transpose(b: Builder, source: random.Random, x: Op) -> Op:
    order = list(range(x.rank))
    source.shuffle(order)
    return b.transpose(x, order)


def _merge(b: Builder, source: random.Random, x: Op) -> Op | None:
    if x.rank < 2:
        return None
    d = source.randrange(x.rank - 1)
    sizes = [*x.dimensions]
    sizes[d : d + 2] = [sizes[d] * sizes[d + 1]]
    return b.reshape(x, sizes)


def _cut_dimension(b: Builder, source: random.Random, x: Op) -> Op | None:
    places = [(d, k) for d, n in enumerate(x.dimensions) for k in (2, 3, 4) if n % k == 0]
    if not places or x.rank == MOST_RANK:
        return None
    d, k = source.choice(places)
    sizes = [*x.dimensions]
    sizes[d : d + 1] = [k, sizes[d] // k]
    return b.reshape(x, sizes)


def _reduce(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    opcode = source.choice([Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM])
    kept = source.sample(range(x.rank), source.randrange(x.rank))
    gone = [d for d in range(x.rank) if d not in kept]
    start = b.constant(source.choice([0.0, 2.0]))
    return b.reduce(x, start, b.scalar_computation(opcode, x.element_type), gone)


def _broadcast(b: Builder, source: random.Random, x: Op) -> Op | None:
    size = source.choice(SIZES)
    count = size
    for n in x.dimensions:
        count *= n
    if x.rank == MOST_RANK or count > MOST_ELEMENTS:
        return None
    at = source.randrange(x.rank + 1)
    sizes = [*x.dimensions[:at], size, *x.dimensions[at:]]
    return b.broadcast(x, sizes, [d for d in range(x.rank + 1) if d != at])


def _slice(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    starts = [source.randrange(n) for n in x.dimensions]
    limits = [source.randrange(s + 1, n + 1) for s, n in zip(starts, x.dimensions, strict=True)]
    d = source.randrange(x.rank)
    pairs = [(0, n) for n in x.dimensions]
    pairs[d] = (starts[d], limits[d])
    return b.slice(x, [p[0] for p in pairs], [p[1] for p in pairs])


def _join(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    return b.concatenate([x, b.negate(x)], source.randrange(x.rank))


def _dot(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    d = source.randrange(x.rank)
    free = [n for i, n in enumerate(x.dimensions) if i != d]
    count = 1
    for n in free:
        count *= n * n
    if count > MOST_ELEMENTS or 2 * len(free) > MOST_RANK:
        return None
    return random_operations.small(b, b.dot(x, b.negate(x), DotDimensions((d,), (d,))))


def _row(b: Builder, source: random.Random, x: Op) -> Op | None:
    if not x.rank:
        return None
    starts = [b.constant(source.randrange(-2, n + 2)) for n in x.dimensions]
    sizes = [source.choice([n, source.randrange(1, n + 1)]) for n in x.dimensions]
    return b.dynamic_slice(x, starts, sizes)


def _update(b: Builder, source: random.Random, x: Op) -> Op | None:
    row = _row(b, source, x)
    if row is None:
        return None
    starts = [b.constant(source.randrange(-2, n + 2)) for n in x.dimensions]
    return b.dynamic_update_slice(x, b.negate(row), starts)


MAKERS: tuple[Maker, ...] = (
    *(_same, _transpose, _merge, _cut_dimension, _reduce, _broadcast, _slice, _join, _dot),
    *(_row, _update, *random_operations.MAKERS),
)


def random_module(seed: int) -> Module:
    """Return a module of some operations, whose values are sharded here and there."""
    source = random.Random(seed)
    count = source.choice(MESHES)
    b = Builder("random")
    values: list[Op] = []
    for number in range(source.randrange(1, 4)):
        sizes = tuple([source.choice(SIZES) for _ in range(source.randrange(1, 4))])
        with b.sharding(random_sharding(source, count, sizes)):
            values.append(b.parameter(number, array_shape(ElementType.F32, sizes)))
    for _ in range(source.randrange(2, 9)):
        x = source.choice(values[-3:])
        made = source.choice(MAKERS)(b, source, x)
        if made is None:
            continue
        same = [v for v in values if v.dimensions == made.dimensions]
        if same and source.random() < 0.5:
            made = b.add(made, source.choice(same))
        if source.random() < 0.4:
            with b.sharding(random_sharding(source, count, made.dimensions)):
                made = b.custom_call("Sharding", [made], made.shape)
        values.append(made)
    module = b.build(b.tuple(values[-2:]))
    module.num_partitions = count
    is_free = source.random() < 0.5
    module.allow_spmd_sharding_propagation_to_output = (is_free,)
    return module


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_random_modules(seed: int) -> None:
    check_equal(random_module(seed))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**32))
def test_more_random_modules(seed: int) -> None:
    check_equal(random_module(seed))


@pytest.mark.parametrize("seed", range(8))
def test_equal_modules_give_equal_programs(seed: int) -> None:
    texts = {str(check_equal(random_module(seed)).module) for _ in range(2)}
    assert len(texts) == 1
