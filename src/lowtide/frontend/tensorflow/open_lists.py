"""Lists of tensors whose sizes or number of entries are not known where they are made.

What is stored in them tells both. A list that grows is the tuple of an array with room for all of
its entries and of how many there are.
"""

from __future__ import annotations

from typing import Final, final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphError
from lowtide.ir import Shape
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES

LENGTH: Final = ElementType.S32
"""The type of how many entries a list has."""


@final
class OpenList(Expression):
    """A list that is no value yet: of `sizes`, or of `room` for entries, one is None.

    `grows` says that entries are added behind the last one; `added` counts those that were added
    while the list was open. With `by_place` entries are stored at places beyond the last one.
    """

    __slots__ = ("added", "by_place", "element_type", "grows", "room", "sizes")

    def __init__(
        self,
        element_type: ElementType,
        sizes: tuple[int, ...] | None,
        room: int | None,
        *,
        grows: bool = False,
        added: int = 0,
        by_place: bool = False,
    ) -> None:
        self.element_type = element_type
        self.sizes = sizes
        self.room = room
        self.grows = grows
        self.added = added
        self.by_place = by_place

    @property
    def array(self) -> None:
        """No array."""
        return

    @property
    def shape(self) -> Shape:
        """None that is known; raises GraphError."""
        raise self._error()

    def op(self, builder: Builder) -> Op:
        """No operation; raises GraphError."""
        raise self._error()

    def _error(self) -> GraphError:
        what = "of entries whose sizes" if self.sizes is None else "whose number of entries"
        return GraphError(f"a list of tensors {what} no loop tells: give it when the list is made")

    def filled(self, b: Builder, sizes: tuple[int, ...], room: int) -> Op:
        """Return the list as a value: zeros of some sizes, of which none counts if it grows."""
        zero = b.constant(np.zeros((), DTYPES[self.element_type]))
        entries = b.broadcast(zero, [room, *sizes], [])
        return b.tuple([entries, b.constant(0, LENGTH)]) if self.grows else entries

    def stored(self, item: Op, *, added: int = 0, by_place: bool = False) -> OpenList:
        """Return the list after an entry of the sizes of `item` was stored."""
        return OpenList(
            self.element_type,
            item.dimensions,
            self.room,
            grows=self.grows,
            added=self.added + added,
            by_place=self.by_place or by_place,
        )
