"""Calls of all kinds, step by step: any arguments, consumed arguments, any layout, profiles."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from lowtide.ir.given_arrays import check_count
from lowtide.ir.literal import Array
from lowtide.runtime.cpu.arguments import as_array, check_disjoint, consumable, in_memory_order
from lowtide.runtime.cpu.binding import Binding
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.frame import Frame
from lowtide.runtime.cpu.handover import Recycled, new_array
from lowtide.runtime.cpu.results import Made
from lowtide.runtime.devices.native_rendezvous import UNMET
from lowtide.runtime.devices.rendezvous import rendezvous_error


def opened(binding: Binding, arguments: Sequence[Any]) -> tuple[Array, ...]:
    """Return arguments as arrays of the wanted types and sizes; raises InputError."""
    wanted = binding.interface.arguments
    check_count(wanted, len(arguments))
    return tuple([as_array(x, given) for x, given in zip(wanted, arguments, strict=True)])


def prepared(binding: Binding, opened: Sequence[Array], made: Sequence[Made]) -> tuple[Array, ...]:
    """Return arguments as kernels read them; raises InputError where one cannot be consumed."""
    wanted = binding.interface.arguments
    consumed = {x.consumed for x in made if x.consumed >= 0}
    arrays = []
    for number, (argument, array) in enumerate(zip(wanted, opened, strict=True)):
        order = consumable if number in consumed else in_memory_order
        arrays.append(order(argument, array))
    if consumed:
        check_disjoint(wanted, arrays, sorted(consumed))
    return tuple(arrays)


def run(
    binding: Binding,
    frame: Frame,
    arrays: Sequence[Array],
    made: Sequence[Made],
    recycled: Recycled,
) -> list[Any]:
    """Run on prepared arguments; return results, None where they are pages or arguments.

    New arrays may have pages that were `recycled`. Raises what the handler of a signal raises, and
    RendezvousError where other devices do not come.
    """
    for argument, array in zip(binding.interface.arguments, arrays, strict=True):
        if argument.allocation >= 0:
            frame.bases[argument.allocation] = array.ctypes.data
    results = [_begun(x, frame, recycled) for x in made]
    if binding.native.run_alone(*frame.run_words()) == UNMET:
        raise rendezvous_error(binding.program, binding.linked.collectives)
    for x, result in zip(made, results, strict=True):
        if x.fill is Fill.COPY:
            source = int(frame.bases[x.allocation]) + x.offset
            ctypes.memmove(result.ctypes.data, source, x.nbytes)
    return results


def _begun(made: Made, frame: Frame, recycled: Recycled) -> Any:
    if made.fill is Fill.NONE:
        return None
    result = new_array(made, recycled)
    if made.fill is Fill.RENEW:
        ctypes.memmove(result.ctypes.data, int(frame.bases[made.allocation]), made.nbytes)
    if made.fill in (Fill.RENEW, Fill.PLACE):
        frame.bases[made.allocation] = result.ctypes.data
    return result
