"""Meetings of devices within native runs: values are read from memory, exchanged, and written."""

from __future__ import annotations

import ctypes

import numpy as np

from lowtide.host_calls.arrays import array_at, write_array
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.ir.thunk import ExchangeThunk
from lowtide.runtime.devices.meeting import Seat, current_seat


class ExchangeRun:
    """What runs one collective operation of a program, on the thread of each device."""

    def __init__(self, thunk: ExchangeThunk) -> None:
        self._name = thunk.name
        self._exchange = exchange = thunk.exchange
        self._count = len(exchange.operands) + len(exchange.results)

    def run(self, place: int) -> None:
        """Exchange values, given the address of the addresses of operands and results."""
        exchange, seat = self._exchange, current_seat()
        assert seat is not None
        addresses = (ctypes.c_size_t * self._count).from_address(place)
        count = len(exchange.operands)
        received = [self._number(seat)]
        if exchange.groups:
            pairs = zip(addresses[:count], exchange.operands, strict=True)
            brought = [array_at(address, shape) for address, shape in pairs]
            meet = seat.meeting.exchange
            received = list(meet(seat.number, self._name, exchange, brought))
        for number, shape in enumerate(exchange.results):
            empty = np.zeros(shape.dimensions, DTYPES[shape.element_type])
            value = received[number] if number < len(received) else empty
            write_array(addresses[count + number], shape, value)

    def _number(self, seat: Seat) -> np.ndarray:
        partitions = seat.meeting.partitions
        is_partition = self._exchange.kind is Opcode.PARTITION_ID
        number = seat.number % partitions if is_partition else seat.number // partitions
        return np.full((), number, np.uint32)
