"""Native code of several devices under watch: one device computes at a time, and all meet."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.client.errors import SanitizerError
from lowtide.evaluator.device_groups import GroupDevice
from lowtide.evaluator.rendezvous import Rendezvous
from lowtide.inspection.expected_results import difference_on_devices
from lowtide.inspection.sanitizer import Sanitized, WatchedRun, checked_arguments
from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.ir.literal import Array
from lowtide.ir.thunk import unbundled
from lowtide.records import dataclass
from lowtide.runtime.cpu.linked import Linked
from lowtide.runtime.cpu.native import native
from lowtide.runtime.cpu.program import NativeProgram, nested
from lowtide.runtime.devices.collective_block import CollectiveBlock
from lowtide.runtime.devices.rendezvous import (
    DeviceRendezvous,
    Participant,
    RendezvousError,
    participant_for,
    rendezvous_error,
)


def check_on_devices(
    program: NativeProgram, module: Module, arguments: Sequence[Sequence[Any]]
) -> Sanitized:
    """Return the results of all devices, each run thunk by thunk under watch.

    `module` is the scheduled one that the program was made of, `arguments` are those of each
    device. What devices receive is compared with what they receive in the evaluator. Raises
    SanitizerError at the first fault.
    """
    if len(arguments) != program.devices:
        raise InputError(
            f"{program.name} runs on {program.devices} devices, found arguments of {len(arguments)}"
        )
    given = [checked_arguments(program, one) for one in arguments]
    start = perf_counter()
    runs = _Runs(program, module, given)
    runs.run()
    skipped = sorted({x for run in runs.done for x in run.expected.not_compared})
    results = [run.results() for run in runs.done]
    wrong = "" if skipped else difference_on_devices(module, given, results)
    if wrong:
        raise SanitizerError(
            f"{module.name}: each thunk is right, but the results are not the evaluator's: "
            f"{wrong}; thunks read or write other slices than they should"
        )
    structure = program.interface.structure
    return Sanitized(
        [nested(structure, one) for one in results],
        sum([run.count for run in runs.done]),
        tuple(skipped),
        perf_counter() - start,
    )


@dataclass(frozen=True, slots=True)
class _Device:
    """A device of a watched run: as it is in the evaluator, and where it sits."""

    program: NativeProgram
    evaluated: GroupDevice
    linked: Linked
    participant: Participant

    def meet(self, collective: CollectiveBlock, words: npt.NDArray[np.uint64]) -> None:
        """Meet others in native code, while another device may compute."""
        with self.evaluated.rendezvous.aside():
            came = self.linked.native.meet(collective.address, words, self.participant.address)
        if not came:
            raise rendezvous_error(self.program, self.linked.collectives)


class _Runs:
    def __init__(
        self, program: NativeProgram, module: Module, arguments: Sequence[list[Array]]
    ) -> None:
        self.program = program
        self.module = module
        self.arguments = arguments
        self.rendezvous = DeviceRendezvous(program.replicas, program.partitions)
        self.evaluated = Rendezvous(program.devices)
        self.linked = Linked(program, native())
        self.done: list[WatchedRun] = []
        self._found: dict[int, WatchedRun] = {}
        self._errors: list[BaseException] = []

    def run(self) -> None:
        """Run all devices; raises what the first one to fail raises."""
        threads = [
            threading.Thread(target=self._run, args=(i,), daemon=True)
            for i in range(self.program.devices)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            own = (x for x in self._errors if not isinstance(x, RendezvousError))
            raise next(own, self._errors[0])
        self.done = [self._found[i] for i in range(self.program.devices)]

    def _run(self, number: int) -> None:
        self.evaluated.start()
        try:
            with self.rendezvous.device(number):
                program = self.program
                evaluated = GroupDevice(
                    number, program.replicas, program.partitions, self.evaluated
                )
                device = _Device(program, evaluated, self.linked, participant_for(program))
                run = WatchedRun(program, self.module, self.arguments[number], device)
                run.sequence(unbundled(program.thunks))
                self._found[number] = run
        except BaseException as error:
            self._errors.append(error)
        finally:
            self.evaluated.finish()
