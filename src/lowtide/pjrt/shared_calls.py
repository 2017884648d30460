"""Calls of programs that several devices run together: a job for each, which meet as they run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from threading import Lock
from typing import Any, Final

from lowtide.pjrt.blocks import WORD
from lowtide.pjrt.devices import PluginDevice
from lowtide.pjrt.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import cell_of
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.native_queue import BY_PYTHON
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.queues import is_worker, queue_of
from lowtide.records import dataclass
from lowtide.runtime.devices.rendezvous import DeviceRendezvous, RendezvousError

_LISTS: Final = ("argument_lists", "output_lists", "device_complete_events")


@dataclass(eq=False, slots=True)
class SharedCall:
    """One call of a program on all of its devices; `error` is that of the first one to fail."""

    rendezvous: DeviceRendezvous
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CallParticipant:
    """The place of a job among those of its call."""

    call: SharedCall
    number: int


_participants: Final[dict[int, CallParticipant]] = immortal({})
"""By the address of a job, until it runs."""

_enqueuing: Final = Lock()
"""Held while the jobs of one call are put on all queues, so that these have calls in one order."""


def check_devices(program: PluginProgram, arguments: Any) -> None:
    """Raise PluginError where a program cannot be called on these devices or from this thread."""
    count = len(program.devices)
    if arguments.execute_device or arguments.num_devices != count:
        found = 1 if arguments.execute_device else arguments.num_devices
        raise PluginError(
            INVALID_ARGUMENT, f"{program.name} runs on {count} devices, not on {found}"
        )
    if is_worker():
        raise PluginError(
            FAILED_PRECONDITION,
            f"{program.name} runs on {count} devices, and is called by a callback from a program "
            "that runs on one of them and would have to wait for itself: return what it needs, "
            "and call it behind that program, or have callbacks use JAX's CPU platform "
            "(JAX_PLATFORMS=lowtide,cpu)",
        )


def calls_by_device(arguments: Any) -> list[Any]:
    """Return what Execute is given, apart for each device."""
    size, found = ctypes.sizeof(arguments), []
    for number in range(arguments.num_devices):
        given = ctypes.string_at(ctypes.addressof(arguments), size)
        call = type(arguments).from_buffer_copy(given)
        call.struct_size, call.num_devices, call.execute_device = BY_PYTHON, 1, None
        for name in _LISTS:
            start = getattr(arguments, name)
            setattr(call, name, start + WORD * number if start else None)
        found.append(call)
    return found


def call_together(program: PluginProgram, launch: int, calls: list[Any]) -> int | None:
    """Enqueue a call on all devices of a program; `calls` are those that `calls_by_device` returns.

    Return None, or the number of the device whose arguments cannot be taken, as they were deleted
    or are donated and given twice; then nothing runs.
    """
    code, jobs = native_code(), list[tuple[int, int]]()
    for number, (device, call) in enumerate(zip(program.devices, calls, strict=True)):
        queue = queue_of(device).address
        job = code.claim(ctypes.addressof(call), launch, device.address, queue)
        if not job:
            for _, earlier in jobs:
                code.discard(earlier)
            return number
        jobs.append((queue, job))
    for call, (_, job) in zip(calls, jobs, strict=True):
        code.announce(ctypes.addressof(call), job)
    shared = SharedCall(DeviceRendezvous(program.options.replicas, program.options.partitions))
    with _enqueuing:
        for number, (queue, job) in enumerate(jobs):
            _participants[job] = CallParticipant(shared, number)
            code.enqueue(queue, job)
    for queue, _ in jobs:
        code.back_pressure(queue)
    return None


def is_shared(job: int) -> bool:
    """Whether a job that has not run is one of a program that several devices run."""
    return job in _participants


@contextmanager
def taking_part(job: int, explain: Callable[[BaseException], BaseException]) -> Iterator[None]:
    """Have this thread be the device of a job.

    An error inside, as explained, ends the call on all devices, and is what each of them raises.
    """
    participant = _participants.pop(job)
    call = participant.call
    try:
        with call.rendezvous.device(participant.number):
            try:
                yield
            except RendezvousError:
                raise
            except BaseException as error:
                call.error = call.error or explain(error)
                raise call.error from None
    except RendezvousError:
        if call.error is not None:
            raise call.error from None
        raise


def place_results(program: PluginProgram, call: Any, device: PluginDevice) -> None:
    """Have the results of a call on a device lie in the memories that the program names."""
    if not program.results:
        return
    lists = c_void_p.from_address(call.output_lists).value
    made = (c_void_p * len(program.results)).from_address(lists or 0)
    for address, result in zip(made, program.results, strict=True):
        found = cell_of(address or 0)
        found.device, found.memory = device.address, device.memory_of(result.memory).address
