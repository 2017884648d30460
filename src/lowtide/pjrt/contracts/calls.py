"""Calls held against what they may do to arguments, and against what is told of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from dataclasses import field
from typing import Any

from lowtide.pjrt.blocks import WORD, read_words
from lowtide.pjrt.contracts.arrays import (
    ArrayFacts,
    HeldStorage,
    digest,
    facts_of,
    held,
    is_deleted,
    require_equal,
)
from lowtide.pjrt.contracts.findings import BrokenContractError, note, require
from lowtide.pjrt.devices import PluginDevice
from lowtide.pjrt.errors import PluginError
from lowtide.pjrt.handles import cell_of, destroy, value_of
from lowtide.pjrt.native_jobs import KEPT
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.signatures import ArrayType
from lowtide.pjrt.storage import when_ready
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """The part of a call on one device: the handles of its arguments, and what each was before."""

    program: PluginProgram
    device: PluginDevice
    arguments: Sequence[int]
    donated: frozenset[int]
    was_deleted: tuple[bool, ...]
    kept: list[HeldStorage] = field(default_factory=list)

    def named(self, side: str, number: int) -> str:
        """Return the words for an argument or a result in messages."""
        return f"{side} {number} of {self.program.name} on {self.device}"

    @property
    def is_refused(self) -> bool:
        """Whether JAX expects the call to be refused: what it is given is gone, or given twice."""
        times = Counter(self.arguments)
        return any(self.was_deleted) or any(times[self.arguments[i]] > 1 for i in self.donated)


def device_calls(arguments: Any) -> list[DeviceCall]:
    """Return the parts of a call as Execute is given it, on each device.

    Raises BrokenContractError where the arguments are not what the program takes.
    """
    program: PluginProgram = value_of(arguments.executable)
    places = program.devices
    if arguments.execute_device:
        places = [value_of(arguments.execute_device)]
    found = []
    for number, device in enumerate(places[: arguments.num_devices]):
        start = c_void_p.from_address(arguments.argument_lists + WORD * number).value or 0
        given = read_words(start, arguments.num_args)
        deleted = tuple([is_deleted(x) for x in given])
        taken = frozenset(program.donated) - _kept_numbers(arguments.options)
        call = DeviceCall(program, device, given, taken, deleted)
        for i, (address, kind) in enumerate(zip(given, program.arguments, strict=False)):
            if not deleted[i]:
                require_equal(facts_of(address), _told(kind, device), call.named("argument", i))
        found.append(call)
    return found


def _told(kind: ArrayType, device: PluginDevice) -> ArrayFacts:
    return ArrayFacts(kind.sizes, kind.number, kind.order, kind.memory, device)


def _kept_numbers(options: int | None) -> frozenset[int]:
    """The arguments that a call keeps though the program may take them."""
    if not options:
        return frozenset()
    address, count = read_words(options + KEPT, 2)
    return frozenset((c_int64 * count).from_address(address)) if count else frozenset()


def hold_arguments(calls: Sequence[DeviceCall]) -> None:
    """Hold the memory of what the calls may only read, with a digest of what is there."""
    for call in calls:
        for i, address in enumerate(call.arguments):
            memory = None
            if i not in call.donated:
                memory = held(address, call.named("argument", i), reads=True)
            if memory is not None:
                call.kept.append(memory)


def release_arguments(calls: Sequence[DeviceCall]) -> None:
    """Hold that memory no more."""
    for call in calls:
        for memory in call.kept:
            memory.release()


def check_refusal(calls: Sequence[DeviceCall], error: PluginError) -> None:
    """Raise BrokenContractError where a call that was refused has taken an argument all the same.

    So too where an array that was deleted is told of in other words than those JAX knows.
    """
    require(bool(str(error)), "a call was refused without a word")
    for call in calls:
        for i, (address, before) in enumerate(zip(call.arguments, call.was_deleted, strict=True)):
            taken = is_deleted(address) and not before
            require(not taken, f"{call.named('argument', i)} was taken by a call that was refused")
    if any(any(x.was_deleted) for x in calls):
        words = "deleted or donated" in str(error) or "donated and given" in str(error)
        require(words, f"a call with an array that was deleted is refused by other words: {error}")


def check_accepted(calls: Sequence[DeviceCall]) -> None:
    """Raise BrokenContractError where a call was accepted that is to be refused, or took too much.

    Arguments that are donated are gone, all others are not.
    """
    for call in calls:
        name = call.program.name
        require(not call.is_refused, f"{name} ran with an array that is gone, or is given twice")
        for i, address in enumerate(call.arguments):
            what = call.named("argument", i)
            if i in call.donated:
                require(is_deleted(address), f"{what} was donated and is not marked as deleted")
            else:
                require(not is_deleted(address), f"{what} was not donated, and is gone")


def check_results(calls: Sequence[DeviceCall], output_lists: int) -> None:
    """Raise BrokenContractError for results that are not as told; their memory is looked at later.

    That is once they are there: `_finished`.
    """
    for number, call in enumerate(calls):
        program = call.program
        start = c_void_p.from_address(output_lists + WORD * number).value if output_lists else 0
        results = read_words(start or 0, len(program.results))
        names = [call.named("result", i) for i in range(len(results))]
        require(len(set(results)) == len(results), f"{program.name} returns one handle twice")
        for address, kind, what in zip(results, program.results, names, strict=True):
            require(bool(address), f"{what} is missing")
            require(not is_deleted(address), f"{what} is deleted before anybody has it")
            require_equal(facts_of(address), _told(kind, call.device), what)
        made = [held(x, what, reads=False) for x, what in zip(results, names, strict=True)]
        outputs = [x for x in made if x is not None]
        arguments = list(call.kept)
        call.kept.clear()
        if results:
            event = cell_of(results[0]).event

            def look(failure: PluginError | None, a: Any = arguments, b: Any = outputs) -> None:
                _finished(a, b, failure)

            when_ready(event, look)
        else:
            for memory in arguments:
                memory.release()


def _finished(
    arguments: Sequence[HeldStorage], results: Sequence[HeldStorage], failure: PluginError | None
) -> None:
    """Note what a call that has ended did to memory that it may not write to."""
    try:
        check_memory(arguments, [] if failure is not None else results)
    except BrokenContractError as error:
        note(str(error).partition(": ")[2])
    finally:
        for memory in (*arguments, *results):
            memory.release()


def check_memory(arguments: Sequence[HeldStorage], results: Sequence[HeldStorage]) -> None:
    """Raise BrokenContractError where memory was written to that is not a result's own.

    So too where two results, or a result and what may only be read, lie in the same bytes.
    """
    for memory in arguments:
        same = not memory.digest or memory.digest == digest(memory.address)
        require(same, f"{memory.what} was not donated, and the call has changed it")
    spans = sorted([(*x.span, x.what, x in results) for x in (*results, *arguments)])
    end, last, was_result = 0, "", False
    for begin, stop, what, is_result in spans:
        overlaps = begin < end and begin < stop and (is_result or was_result)
        require(not overlaps, f"{what} and {last} lie in the same memory")
        if stop > end:
            end, last, was_result = stop, what, is_result


def drop_results(calls: Sequence[DeviceCall], output_lists: int) -> None:
    """Destroy the results of a call whose contract is broken: nobody gets them."""
    for number, call in enumerate(calls):
        start = c_void_p.from_address(output_lists + WORD * number).value if output_lists else 0
        for address in read_words(start or 0, len(call.program.results)):
            if address:
                destroy(address)
