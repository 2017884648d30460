"""Calls of programs, so far as they need Python: first calls, errors, jobs of the workers."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import CFUNCTYPE, c_size_t, c_void_p
from functools import partial
from threading import Lock
from typing import Any, Final

from lowtide.client.executable.executable import Executable
from lowtide.native import view
from lowtide.pjrt import PLATFORM
from lowtide.pjrt.blocks import BufferStorage, Launch, QueuedCall, read_words
from lowtide.pjrt.element_types import dtype_of
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError, code_of, error_at, new_error, text_of
from lowtide.pjrt.exhaustion import exhausted
from lowtide.pjrt.handles import cell_of, destroy, sweep, value_of
from lowtide.pjrt.launching import LaunchedProgram
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.native_queue import BY_PYTHON
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.queues import DeviceQueue, queue_at, queue_of, run_jobs_with
from lowtide.pjrt.shared_calls import (
    call_together,
    calls_by_device,
    check_devices,
    is_shared,
    place_results,
    taking_part,
)
from lowtide.pjrt.signatures import with_tokens, without_tokens
from lowtide.pjrt.storage import array_in, fill
from lowtide.pjrt.table import serves
from lowtide.runtime.cpu.pages import OutOfMemoryError


@serves(
    "LoadedExecutable_Execute",
    executable=c_void_p,
    options=c_void_p,
    argument_lists=c_void_p,
    num_devices=c_size_t,
    num_args=c_size_t,
    output_lists=c_void_p,
    device_complete_events=c_void_p,
    execute_device=c_void_p,
)
def _execute(arguments: Any) -> None:
    """What machine code does not do: to prepare a program for its first call, and to refuse one."""
    sweep()
    program: PluginProgram = value_of(arguments.executable)
    program.alive()
    count = arguments.num_args
    if count != program.argument_count:
        found = f"{count} arguments, {program.name} takes {program.argument_count}"
        raise PluginError(INVALID_ARGUMENT, found)
    cell: Any = cell_of(arguments.executable)
    device: Any = cell_of(arguments.execute_device or program.device.address)
    is_ready = cell.of and device.of and not program.is_shared
    if is_ready and (not _is_elsewhere(cell.of) or arguments.struct_size == BY_PYTHON):
        _refuse(program, (c_void_p * count).from_address(_pointer(arguments.argument_lists)))
    queue_of(value_of(ctypes.addressof(device)))
    with _preparing:
        if not cell.of:
            cell.of = LaunchedProgram(program).address
    if program.is_shared:
        _execute_together(program, cell.of, arguments)
    elif _is_elsewhere(cell.of):
        _execute_elsewhere(program, arguments)
    else:
        _launch(arguments)


_preparing: Final = Lock()


def _is_elsewhere(launch: int) -> bool:
    """Whether Python has to see to the results of calls of a program."""
    block: Any = view(Launch, launch)
    return bool(block.elsewhere)


def _launch(arguments: Any) -> None:
    error = native_code().execute(ctypes.addressof(arguments))
    if error:
        raise error_at(error)


def _execute_elsewhere(program: PluginProgram, arguments: Any) -> None:
    """Run a program of one device, and say where the results are.

    So they are in memories other than the usual one. All memories are ordinary ones. A program that
    calls Python functions runs on this thread if it can: then its error is that of the call.
    """
    place = program.device
    if arguments.execute_device:
        place = value_of(arguments.execute_device)
    if arguments.num_devices != 1:
        found = f"{program.name} runs on 1 device, not on {arguments.num_devices}"
        raise PluginError(INVALID_ARGUMENT, found)
    (call,) = calls_by_device(arguments)
    call.execute_device = place.address
    _launch(call)
    place_results(program, call, place)
    _raise_failure(program, call)


def _raise_failure(program: PluginProgram, call: Any) -> None:
    """Raise PluginError for a call that has failed already; nobody gets its results."""
    made = read_words(_pointer(call.output_lists), len(program.results)) if program.results else []
    ended = _pointer(call.device_complete_events) if call.device_complete_events else 0
    event = cell_of(made[0]).event if made else ended
    code = native_code()
    if not event or not code.has_happened(event):
        return
    error = code.wait_for(event)
    if not error:
        return
    for address in made:
        destroy(address)
    if ended:
        code.release(ended)
        c_void_p.from_address(call.device_complete_events).value = None
    raise error_at(error)


def _execute_together(program: PluginProgram, launch: int, arguments: Any) -> None:
    """Run a program on all of its devices."""
    check_devices(program, arguments)
    calls = calls_by_device(arguments)
    refusing = call_together(program, launch, calls)
    if refusing is not None:
        given = _pointer(calls[refusing].argument_lists)
        _refuse(program, read_words(given, program.argument_count))
    for call, place in zip(calls, program.devices, strict=True):
        place_results(program, call, place)


def _refuse(program: PluginProgram, given: Sequence[int]) -> None:
    """Raise PluginError for a call with arguments that are deleted, or donated and given twice."""
    times = Counter(given)
    for i in program.donated:
        if times[given[i]] > 1:
            raise PluginError(
                INVALID_ARGUMENT,
                f"argument {i} of {program.name} is donated and given once more in the same call: "
                "give a copy, or do not donate it",
            )
    raise PluginError(INVALID_ARGUMENT, "Array has been deleted or donated.")


def _pointer(address: int) -> int:
    """The pointer at an address."""
    found = c_void_p.from_address(address).value
    return found or 0


# -- jobs ----------------------------------------------------------------------------------------


def _run_job(queue: DeviceQueue, address: int) -> None:
    """Run a job that needs Python, or give the queue the arena that it lacked for one."""
    code, error = native_code(), None
    job: Any = view(QueuedCall, address)
    launched: LaunchedProgram = value_of(job.launch)
    try:
        sweep()
        needed = launched.block.arena_bytes
        if job.is_full:
            raise OutOfMemoryError("the results of the call do not fit into memory")
        lacks = queue.block.arena_bytes < needed and not queue.is_taken()
        if launched.block.bare and lacks:
            queue.give(queue.take(needed))
            code.again(queue.address, address)
            return
        if launched.block.is_shared:
            with taking_part(address, partial(_told, launched.program)), _at_home(launched, job):
                failure = code.failed(address)
                if failure:
                    raise error_at(failure)
                _run_in_python(queue, job, launched.program)
        else:
            _run_in_python(queue, job, launched.program)
    except BaseException as found:
        error = new_error(_explained(found, launched.program))
    code.finish(address, error)


def _explained(error: BaseException, program: PluginProgram) -> BaseException:
    """The error for a call, with what takes the memory where that was not to be had."""
    if not isinstance(error, MemoryError) or not isinstance(program.executable, Executable):
        return error
    try:
        return exhausted(program.executable, error)
    except Exception:  # the worker has to go on, and the error itself says what happened
        return error


def _at_home(launched: LaunchedProgram, job: Any) -> AbstractContextManager[Any]:
    """Have what callbacks of a job do by default be done on its own device.

    Any other device of the call may wait for this one.
    """
    if not launched.calls_python:
        return nullcontext()
    import jax

    number = value_of(job.device).number
    home: AbstractContextManager[Any] = jax.default_device(
        next(x for x in jax.devices(PLATFORM) if x.id == number)
    )
    return home


def _told(program: PluginProgram, error: BaseException) -> PluginError:
    """An error of a call on several devices, written once for all of them."""
    explained = _explained(error, program)
    return PluginError(code_of(explained), text_of(explained))


def _run_in_python(queue: DeviceQueue, job: Any, program: PluginProgram) -> None:
    executable = program.alive()
    if not isinstance(executable, Executable):
        sweep()
        arrays = [value_of(x) for x in read_words(job.inputs, job.argument_count)]
        results = executable(*without_tokens(arrays, program.tokens))
    else:
        results = _run_on_processor(queue, job, program, executable)
    leaves = with_tokens(results if program.is_tuple else (results,))
    outputs = read_words(job.outputs, job.result_count)
    for storage, array in zip(outputs, leaves, strict=True):
        fill(storage, array)


def _run_on_processor(
    queue: DeviceQueue, job: Any, program: PluginProgram, executable: Executable
) -> Any:
    """The results of a program of the processor for the arguments of a job."""
    storages = read_words(job.inputs, job.argument_count)
    taken = read_words(job.taken, job.argument_count)
    types = zip(storages, program.arguments, strict=True)
    arrays = [array_in(x, dtype_of(y.number), y.sizes) for x, y in types]
    for i in program.donated:
        if not taken[i] or not _is_alone(storages[i]):
            arrays[i] = arrays[i].copy()
    code, nbytes = native_code(), executable.arena_bytes
    code.account(queue.address, nbytes)
    try:
        plain = without_tokens(arrays, program.tokens)
        return executable(*plain, consume=bool(program.donated))
    finally:
        code.account(queue.address, -nbytes)


def _is_alone(storage: int) -> bool:
    """Whether the job has the last reference to the memory of an argument."""
    block: Any = view(BufferStorage, storage)
    parent: Any = view(BufferStorage, block.parent) if block.parent else block
    return bool(block.refs == parent.refs == 1)


run_jobs_with(_run_job)


def _run_nested(queue: int, address: int) -> None:
    """A call from within a call on the worker, by a callback: it cannot wait for its turn.

    It runs at once. Where its arguments are still to come, what is queued before it runs first,
    but for calls that several devices run: these wait for the call that this one is within.
    """
    code, here, job = native_code(), queue_at(queue), view(QueuedCall, address)
    events = [x for x in read_words(job.events, job.argument_count) if x]
    if all(code.has_happened(x) for x in events):
        _run_alone(here, address)
        return
    event = job.event
    code.retain(event)
    code.enqueue(queue, address)
    here.run_until(event, is_shared)
    code.release(event)


def _run_alone(queue: DeviceQueue, address: int) -> None:
    """Run a job that no queue has, and whose arguments are there or failed."""
    code, error = native_code(), None
    job: Any = view(QueuedCall, address)
    launched: LaunchedProgram = value_of(job.launch)
    try:
        error = code.failed(address)
        if not error:
            _run_in_python(queue, job, launched.program)
    except BaseException as found:
        error = new_error(_explained(found, launched.program))
    code.finish(address, error)


_nested: Final[Any] = immortal(CFUNCTYPE(None, c_void_p, c_void_p)(_run_nested))
native_code().set_nested(ctypes.cast(_nested, c_void_p))
