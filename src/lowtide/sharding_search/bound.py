"""The bytes on one device that no division of the arguments needs less than."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lowtide.analysis.donation import aliases
from lowtide.ir.tilings.grid import prime_factors
from lowtide.sharding_search.program import ShardableProgram


def least_bytes(program: ShardableProgram) -> int:
    """Return the bytes of arguments and results on one device, each in as many tiles as there are.

    A result that overwrites an argument takes none. Tiles are of one size, so that a dimension is
    cut only by what divides it; that axes of several primes cut one dimension each is left out.
    """
    module = program.module
    primes = Counter(prime_factors(program.mesh.count))
    arguments = [leaf.shape for leaf in program.leaves]
    overwriting = {alias.output for alias in aliases(module)}
    results = [
        shape
        for number, (_, shape) in enumerate(module.entry.root.shape.leaves())
        if number not in overwriting
    ]
    return sum(
        [
            shape.nbytes // _most_tiles(shape.dimensions, primes) if shape.is_array else 0
            for shape in (*arguments, *results)
        ]
    )


def _most_tiles(sizes: Sequence[int], primes: Counter[int]) -> int:
    """Return into how many tiles of one size an array can be cut at most."""
    tiles = 1
    for prime, count in primes.items():
        powers = sum([_power(size, prime) for size in sizes if size])
        tiles *= prime ** min(count, powers)
    return tiles


def _power(size: int, prime: int) -> int:
    power = 0
    while size % prime == 0:
        size //= prime
        power += 1
    return power
