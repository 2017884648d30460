"""Operations of random programs in manual regions, each beside what it is on whole arrays."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

P = jax.sharding.PartitionSpec


@dataclass(frozen=True)
class Region:
    """A place for a region: axes that split dimension `d`, and how many tiles they make."""

    axes: tuple[str, ...]
    d: int
    tiles: int

    def blocks(self, x: Any) -> Any:
        """Return the tiles, along a new first dimension."""
        return jnp.stack(jnp.split(x, self.tiles, self.d))


Inner = Callable[[Region, Any], Any]


def _sum(r: Region, x: Any) -> Any:
    return lax.psum(x, r.axes)


def _largest(r: Region, x: Any) -> Any:
    return lax.pmax(x, r.axes)


def _gathered(r: Region, x: Any) -> Any:
    return lax.all_gather(x, r.axes, axis=r.d, tiled=True)


def _numbered(r: Region, x: Any) -> Any:
    return x + lax.axis_index(r.axes)


def _turned(r: Region, x: Any) -> Any:
    return lax.ppermute(x, r.axes, [(i, (i + 1) % r.tiles) for i in range(r.tiles)])


def _scattered(r: Region, x: Any) -> Any:
    whole = lax.all_gather(x, r.axes, axis=r.d, tiled=True)
    return lax.psum_scatter(whole, r.axes, scatter_dimension=r.d, tiled=True)


def _looped(r: Region, x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, z: lax.pmean(z, r.axes) + z * 0.5, x)


def _whole_looped(r: Region, x: Any) -> Any:
    for _ in range(2):
        mean = jnp.mean(r.blocks(x), 0)
        x = jnp.concatenate([mean] * r.tiles, r.d) + x * 0.5
    return x


def _whole_numbered(r: Region, x: Any) -> Any:
    shape = [1] * x.ndim
    shape[r.d] = x.shape[r.d]
    return x + jnp.repeat(jnp.arange(r.tiles), x.shape[r.d] // r.tiles).reshape(shape)


REGIONS: dict[str, tuple[Inner, Inner, bool]] = {
    "sum": (_sum, lambda r, x: jnp.sum(r.blocks(x), 0), False),
    "largest": (_largest, lambda r, x: jnp.max(r.blocks(x), 0), False),
    "gathered": (_gathered, lambda r, x: x, False),
    "numbered": (_numbered, _whole_numbered, True),
    "turned": (_turned, lambda r, x: jnp.roll(x, x.shape[r.d] // r.tiles, r.d), True),
    "scattered": (_scattered, lambda r, x: x * r.tiles, True),
    "looped": (_looped, _whole_looped, True),
}
"""By name what a device does, the same on whole arrays, and whether the result is split."""


def region(source: random.Random, mesh: Any, sizes: dict[str, int], x: Any) -> Any:
    """Return what a random manual region makes of an array, on whole arrays without a mesh."""
    places = [
        (axes, d)
        for axes in [(name,) for name in sizes] + ([tuple(sizes)] if len(sizes) == 2 else [])
        for d in range(x.ndim)
        if x.shape[d] and x.shape[d] % math.prod([sizes[a] for a in axes]) == 0
    ]
    if not places:
        return None
    axes, d = source.choice(places)
    place = Region(axes, d, math.prod([sizes[a] for a in axes]))
    inner, whole, is_split = REGIONS[source.choice(list(REGIONS))]
    partly = source.random() < 0.3
    if mesh is None:
        return whole(place, x)
    spec = P(*[None] * d, axes)
    names = {"axis_names": set(axes)} if partly else {}
    mapped = jax.shard_map(
        lambda z: inner(place, z),
        mesh=mesh,
        in_specs=spec,
        out_specs=spec if is_split else P(),
        check_vma=False,
        **names,
    )
    return mapped(x)
