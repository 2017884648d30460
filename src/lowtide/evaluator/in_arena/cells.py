"""Contents of a running program: values in memory, who made them, and in which run."""

from __future__ import annotations

from typing import final

from lowtide.evaluator.in_arena.code import ArenaStep
from lowtide.evaluator.in_arena.storage import Bytes, Storage
from lowtide.evaluator.values import TOKEN, Value
from lowtide.ir.buffer import BufferSlice
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class CallSiteRun:
    """One run of a call site: within which run of the caller, as which iteration of a loop."""

    site: int
    caller: CallSiteRun | None = None
    iteration: int | None = None


Moment = tuple[CallSiteRun, ArenaStep]
"""A step of a run."""


@final
class Cell:
    """An array in memory: one leaf of what a step made, read as `storage` says.

    `place` is None for what takes no memory, whose value is `value`. `sizes` are the dimensions
    where these are smaller than the bounds. `base` is the cell itself, or the one of which it is
    another view; what follows is said by that one. `image` are the bytes that were stored, kept
    where someone compares with them. `holders` counts who may still read the cell; `read` is the
    last step that did.
    """

    __slots__ = (
        "base",
        "holders",
        "image",
        "leaf",
        "made",
        "number",
        "place",
        "read",
        "sizes",
        "storage",
        "value",
    )

    def __init__(
        self, number: int, place: BufferSlice | None, storage: Storage, made: Moment, leaf: int
    ) -> None:
        self.number = number
        self.place = place
        self.storage = storage
        self.made = made
        self.leaf = leaf
        self.sizes: tuple[int, ...] | None = None
        self.value: Value = TOKEN
        self.base = self
        self.image: Bytes | None = None
        self.holders = 0
        self.read: Moment | None = None

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.made[1].name(self.leaf)

    def view(self, storage: Storage) -> Cell:
        """Return the same memory read as another array."""
        found = Cell(self.number, self.place, storage, self.made, self.leaf)
        found.base = self.base
        return found


Cells = tuple[Cell, ...]
"""The leaves of one value, depth first."""
