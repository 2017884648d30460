"""Sums along the depth of a product: the next tiles are loaded while those that are there add up.

Tiles have two halves in shared memory. Of the half that is read a thread has the numbers that it
needs next in registers, and pieces of the tile after that, as memory takes as long to answer as
many products take.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from lowtide.codegen.gpu.product import TileKernel
from lowtide.codegen.gpu.threads import barrier, warp_barrier
from lowtide.codegen.gpu.tiles import OperandTile
from lowtide.llvm.function import Integer


class Adder(Protocol):
    """What a thread adds up of the tiles in shared memory."""

    @property
    def tiles(self) -> Sequence[OperandTile]:
        """The tiles of both operands."""

    @property
    def steps(self) -> Sequence[int]:
        """The depths within a tile at which products begin."""

    @property
    def sum_types(self) -> Sequence[str]:
        """The type of each sum of a thread."""

    @property
    def fragment_types(self) -> Sequence[str]:
        """The type of each value that a thread needs for the products of a step."""

    def fragments(self, step: int, half: Integer) -> list[str]:
        """Load the values for a step from the halves of the tiles whose number is given."""

    def added(self, sums: Sequence[str], fragments: Sequence[str]) -> list[str]:
        """Return the sums after the products of a step."""


def sums_along_depth(kernel: TileKernel, adder: Adder) -> list[str]:
    """Write the steps along the depth; return the sums of a thread."""
    return _Stages(kernel, adder).write()


class _Stages:
    def __init__(self, kernel: TileKernel, adder: Adder) -> None:
        self.kernel = kernel
        self.fn = kernel.fn
        self.adder = adder
        self.depth = kernel.depth
        self.held = [x for x in adder.tiles if x.is_held]
        self.others = [x for x in adder.tiles if not x.is_held]

    def write(self) -> list[str]:
        """Write all steps; return the sums."""
        fn, adder, step = self.fn, self.adder, self.kernel.sizes.depth
        zeros = ["0.0" if x in ("float", "double") else "0" for x in adder.sum_types]
        for tile in adder.tiles:
            tile.bring(0, 0)
        is_only = self.depth <= step
        pieces = [] if is_only else self._loaded(step)
        barrier(fn)
        if is_only:
            return adder.added(*self._steps(zeros, adder.fragments(adder.steps[0], 0), 0))
        fragments = self._first_fragments(0)
        parts = (
            list(zip(adder.sum_types, zeros, strict=True)),
            list(zip(adder.fragment_types, fragments, strict=False)),
            list(zip(self._piece_types, pieces, strict=True)),
            [("i64", "0")],
        )
        ends = list(accumulate([len(x) for x in parts], initial=0))
        carry = [x for part in parts for x in part]
        with self.kernel.elements.scopes.loop(0, self.depth, step, carry) as loop:
            sums, fragments, pieces, (half,) = [list(loop.values[a:b]) for a, b in pairwise(ends)]
            loop.next = self._turn(loop.index, sums, fragments, pieces, half)
        return loop.results[: ends[1]]

    def _turn(
        self,
        depth: Integer,
        sums: list[str],
        fragments: list[str],
        pieces: list[str],
        half: Integer,
    ) -> list[str]:
        """One step of the loop; return what the next one is given.

        All threads wait for each other once: when the next tiles are stored, and before the last
        products of these, so that loads of shared memory come back while these are made.
        """
        fn, adder, step = self.fn, self.adder, self.kernel.sizes.depth
        other = fn.sub(1, half)
        has_next = fn.compare("slt", fn.add(depth, step), self.depth)
        if self.others:
            with self.kernel.elements.scopes.when(has_next):
                for tile in self.others:
                    tile.bring(fn.add(depth, step), other)
        fragments = fragments or adder.fragments(adder.steps[0], half)
        sums, fragments = self._steps(sums, fragments, half)
        if self.held:
            with fn.when(has_next):
                self._store(pieces, other)
        barrier(fn)
        after = self._first_fragments(other)
        if self.held:
            later = fn.add(depth, 2 * step)
            has_more = fn.compare("slt", later, self.depth)
            types = self._piece_types
            pieces = fn.choose(
                has_more, types, lambda: self._loaded(later), lambda: ["poison"] * len(types)
            )
        if after:
            warp_barrier(fn)  # Else LLVM makes the loads the loop's first, behind the products.
        return [*adder.added(sums, fragments), *after, *pieces, str(other)]

    def _first_fragments(self, half: Integer) -> list[str]:
        """The values for the first step of a tile, where a thread has registers for them ahead."""
        return [] if self.others else self.adder.fragments(self.adder.steps[0], half)

    def _steps(
        self, sums: list[str], fragments: list[str], half: Integer
    ) -> tuple[list[str], list[str]]:
        """The sums ahead of the last step of a tile, and the values for that."""
        for step in self.adder.steps[1:]:
            after = self.adder.fragments(step, half)
            sums, fragments = self.adder.added(sums, fragments), after
        return sums, fragments

    @property
    def _piece_types(self) -> list[str]:
        return [tile.piece_type for tile in self.held for _ in tile.numbers]

    def _loaded(self, depth: Integer) -> list[str]:
        """The pieces of a thread of the tiles that begin at a depth."""
        return [name for tile in self.held for name in tile.load_all(depth)]

    def _store(self, pieces: list[str], half: Integer) -> None:
        for tile in self.held:
            count = len(tile.numbers)
            tile.store_all(pieces[:count], half)
            pieces = pieces[count:]
