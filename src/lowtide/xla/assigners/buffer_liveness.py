"""Logical buffers that may be live at once, as in BufferLiveness of TensorFlow 1.14."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.ir import Module
from lowtide.xla.analysis.hlo_value import HloPosition, HloValue, Use
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.analysis.partial_liveness import interference
from lowtide.xla.analysis.points_to import LogicalBuffer, PointsToAnalysis, maybe_live_out_buffers
from lowtide.xla.analysis.value_uses import may_use

Members = npt.NDArray[np.uint8]
"""A set of buffers, a bit each."""


@final
class BufferLiveness:
    """The live ranges of `buffers` under an ordering; it does not change once made.

    Nothing flows through calls: what a loop, a call or a conditional is given and what it runs
    with are different buffers, which an assigner has to put in one place.
    """

    def __init__(
        self,
        module: Module,
        ordering: Ordering,
        points_to: PointsToAnalysis,
        buffers: Iterable[LogicalBuffer],
    ) -> None:
        self.live_out: Final = frozenset(maybe_live_out_buffers(module, points_to))
        self.values: Final = {x: self._value(x, points_to) for x in buffers}
        found = interference(ordering, list(self.values.values()))
        self._rows: Final = found.rows
        self._place = {buffer: i for i, buffer in enumerate(self.values)}

    def may_interfere(self, first: LogicalBuffer, second: LogicalBuffer) -> bool:
        """Whether two different buffers may be live at once."""
        place = self._place[second]
        return bool(self._rows[self._place[first], place >> 3] >> (place & 7) & 1)

    def members(self, buffers: Iterable[LogicalBuffer]) -> Members:
        """Return buffers as a set of bits."""
        bits = np.zeros(self._rows.shape[1], np.uint8)
        for buffer in buffers:
            place = self._place[buffer]
            bits[place >> 3] |= 1 << (place & 7)
        return bits

    def interferes_with(self, buffer: LogicalBuffer, members: Members) -> bool:
        """Whether a buffer may be live together with one of a set."""
        return bool((self._rows[self._place[buffer]] & members).any())

    def neighbours(self, buffers: Iterable[LogicalBuffer]) -> Members:
        """Return all that interferes with one of some buffers."""
        bits = np.zeros(self._rows.shape[1], np.uint8)
        for buffer in buffers:
            bits |= self._rows[self._place[buffer]]
        return bits

    def _value(self, buffer: LogicalBuffer, points_to: PointsToAnalysis) -> HloValue:
        positions = tuple(points_to.buffer_aliases(buffer))
        return HloValue(
            buffer.number,
            HloPosition(buffer.instruction, buffer.index),
            is_phi=False,
            positions=positions,
            uses=tuple(_uses(positions)),
            colour=buffer.colour,
            live_out=buffer in self.live_out,
        )


def _uses(positions: Iterable[HloPosition]) -> list[Use]:
    return [
        Use(user, number, position.index)
        for position in positions
        for user in position.instruction.users
        if may_use(user, position.index)
        for number, operand in enumerate(user.operands)
        if operand is position.instruction
    ]
