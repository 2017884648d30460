"""Random programs with random shardings on several devices, beside the same on one of XLA's.

LOWTIDE_DEVICES=8 JAX_PLATFORMS=lowtide,cpu \\
    python -m tests.pjrt.sharded.programs FIRST COUNT [STEPS]

Runs programs FIRST, FIRST + 1, ... of at most STEPS operations; prints what differs, and how many
programs ran. What JAX is told of a result is held against what it has: its tiles, their places, and
that it goes on being used.
"""

import math
import random
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from tests.pjrt.sharded.manual import region
from tests.pjrt.sharded.operations import MAKERS, MOST_ELEMENTS

P = jax.sharding.PartitionSpec

MESHES = ((4,), (5,), (6,), (7,), (8,), (2, 2), (2, 3), (4, 2), (2, 4), (3, 2), (2, 2, 2), (1, 4))
SIZES = (1, 2, 3, 4, 6, 8, 12)
STEPS = 7


@dataclass
class Drawing:
    """A program as it is drawn: without a mesh it is the same on whole arrays of one device."""

    seed: int
    steps: int
    sizes: dict[str, int]
    mesh: Any = None
    other: Any = None
    has_two: bool = False
    log: list[str] = field(default_factory=list)

    def spec(
        self, source: random.Random, shape: tuple[int, ...], *, even: bool, mesh: Any = None
    ) -> Any:
        """Return a random way to split an array; dimensions may be left open unless `even`."""
        sizes = self.sizes if mesh is None else dict(mesh.shape)
        names = list(sizes)
        source.shuffle(names)
        parts: list[Any] = [()] * len(shape)
        for name in names:
            d = source.randrange(-1, len(shape))
            if d >= 0:
                split = math.prod([sizes[x] for x in (*parts[d], name)])
                if shape[d] % split == 0 or (not even and source.random() < 0.3):
                    parts[d] = (*parts[d], name)
        if not even:
            is_open = [source.random() < 0.3 for _ in parts]
            parts = [
                P.UNCONSTRAINED if free and not own else own
                for own, free in zip(parts, is_open, strict=True)
            ]
        return P(*[x or None for x in parts])

    def body(self, *arguments: Any) -> list[Any]:
        """Return some values of a program."""
        source = random.Random(self.seed)
        values = list(arguments)
        self.log.clear()
        for step in range(self.steps):
            own = random.Random(source.random())
            x, y = own.choice(values[-3:]), own.choice(values)
            name = own.choice([*MAKERS, *["constraint"] * 4, *["region"] * 4])
            made = self.made(name, own, x, y)
            if made is None or made.size > MOST_ELEMENTS or not made.ndim:
                continue
            self.log.append(f"{step} {name} {x.shape} -> {made.shape}")
            values.append(jnp.clip(made, -8, 8).astype(jnp.float32))
        return values[len(arguments) :][-3:] or values[:1]

    def made(self, name: str, source: random.Random, x: Any, y: Any) -> Any:
        """Return the value of one step."""
        if name == "constraint":
            if self.mesh is None:
                return x
            mesh = self.other if source.random() < 0.2 else self.mesh
            self.has_two |= mesh is self.other
            spec = self.spec(source, x.shape, even=False, mesh=mesh)
            self.log.append(f"{spec}")
            return lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
        if name == "region":
            return region(source, self.mesh, self.sizes, x)
        return MAKERS[name](source, x, y)


def random_mesh(source: random.Random) -> Mesh:
    """Return a mesh of some of the devices, in any order."""
    sizes = source.choice(MESHES)
    count = math.prod(sizes)
    devices = np.array(jax.devices("lowtide"))
    if source.random() < 0.2:
        chosen = source.sample(range(len(devices)), count)
        devices = devices[chosen]
    names = tuple("xyz"[: len(sizes)])
    return Mesh(devices[:count].reshape(sizes), names, axis_types=(AxisType.Auto,) * len(sizes))


def other_mesh(source: random.Random, mesh: Mesh) -> Mesh:
    """Return a mesh of the same devices with other axes."""
    sizes = source.choice([x for x in MESHES if math.prod(x) == mesh.size])
    names = tuple("pqr"[: len(sizes)])
    types = (AxisType.Auto,) * len(sizes)
    return Mesh(mesh.devices.reshape(sizes), names, axis_types=types)


def check(seed: int, steps: int) -> Drawing:
    """Run one program both ways; raises what goes wrong."""
    source = random.Random(seed)
    mesh = random_mesh(source)
    sizes = dict(mesh.shape)
    drawing = Drawing(seed, steps, sizes, mesh, other_mesh(source, mesh))
    arguments, placed = [], []
    for number in range(source.randrange(1, 4)):
        shape = tuple([source.choice(SIZES) for _ in range(source.randrange(1, 4))])
        data = np.random.default_rng(seed + number).normal(size=shape).astype(np.float32)
        spec = drawing.spec(source, shape, even=True)
        arguments.append(data)
        is_free = source.random() < 0.2 and number
        placed.append(data if is_free else jax.device_put(data, NamedSharding(mesh, spec)))
    asked = [source.random() for _ in range(3)]
    specs = random.Random(source.random())
    shapes = [x.shape for x in jax.eval_shape(drawing.body, *arguments)]
    out: Any = [
        None if chance < 0.6 else NamedSharding(mesh, drawing.spec(specs, shape, even=True))
        for chance, shape in zip(asked, shapes, strict=False)
    ]
    donated = (0,) if source.random() < 0.3 else ()
    results = jax.jit(drawing.body, out_shardings=out, donate_argnums=donated)(*placed)
    whole = Drawing(seed, steps, sizes)
    with jax.default_device(jax.devices("cpu")[0]):
        try:
            _compare_all(results, jax.jit(whole.body)(*arguments), drawing)
        except AssertionError:
            # XLA may fuse an update into what it reads, and is wrong then, but not step by step.
            _compare_all(results, whole.body(*arguments), drawing)
    return drawing


def _compare_all(results: Any, expected: Any, drawing: Drawing) -> None:
    for found, wanted in zip(results, expected, strict=True):
        has_two = drawing.has_two
        _compare(found, np.asarray(wanted), drawing.mesh, has_two=has_two)


def _compare(found: Any, wanted: np.ndarray, mesh: Mesh, *, has_two: bool) -> None:
    """Raise AssertionError where a result is not what it says, or what it is to be."""
    close = {"rtol": 2e-4, "atol": 2e-4}
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    local = found.sharding.shard_shape(found.shape)
    places = found.sharding.devices_indices_map(found.shape)
    for shard in found.addressable_shards:
        assert shard.data.shape == local, (shard.data.shape, local, found.sharding)
        assert shard.index == places[shard.device], (shard.index, found.sharding)
        np.testing.assert_allclose(shard.data, wanted[shard.index], **close)
    np.testing.assert_allclose(found, wanted, **close)
    # Of two meshes JAX may take the one that the program it hands over does not have any more.
    is_named = isinstance(found.sharding, NamedSharding)
    assert is_named or has_two or len(found.sharding.device_set) == 1, found.sharding
    np.testing.assert_allclose(found + 1, wanted + 1, **close)
    whole = jax.device_put(found, NamedSharding(mesh, P()))
    np.testing.assert_allclose(whole.addressable_shards[-1].data, wanted, **close)


def main() -> None:
    """Run the programs that the command names; the exit status is 1 where some differ."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else STEPS
    wrong = 0
    for seed in range(first, first + count):
        try:
            check(seed, steps)
        except Exception as error:
            wrong += 1
            print(f"program {seed}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            if count == 1:
                traceback.print_exc()
    print(f"{count} programs, {wrong} wrong")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
