"""Runs of programs of several devices: a thread for each, which meet where they exchange values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, final

from lowtide.client.executable.device_parts import DeviceParts
from lowtide.client.executable.executable import Executable
from lowtide.evaluator.values import value_leaves
from lowtide.ir.errors import InputError, check_class
from lowtide.runtime.cpu.program import NativeProgram, nested
from lowtide.runtime.devices.rendezvous import (
    TIMEOUT_SECONDS,
    DeviceRendezvous,
    ProgramOfDevices,
    RendezvousError,
)


def run_on_devices(
    executable: Executable,
    arguments: Sequence[Sequence[Any]],
    *,
    timeout_seconds: float | None = TIMEOUT_SECONDS,
) -> list[Any]:
    """Return what each device computes: replica 0 with its partitions, then replica 1, ...

    `arguments` are those of each device, in the same order, each as the executable takes them.
    Raises what the first device to fail raises, which ends all others, and RendezvousError where
    one waits for others longer than `timeout_seconds` (None: any time), or all for one another.
    """
    check_class(executable, Executable)
    program = executable.program
    if executable.takes_whole_arrays:
        raise InputError(
            f"{executable.name} takes whole arrays and cuts them for its {program.devices} devices "
            "itself: call it"
        )
    if len(arguments) != program.devices:
        raise InputError(
            f"{executable.name} runs on {program.devices} devices, found arguments of "
            f"{len(arguments)}"
        )
    return on_threads(program, executable, arguments, timeout_seconds)


def on_threads(
    program: ProgramOfDevices,
    call: Callable[..., Any],
    arguments: Sequence[Sequence[Any]],
    timeout_seconds: float | None = TIMEOUT_SECONDS,
) -> list[Any]:
    """Return what `call`, which runs the program of one device, returns for each one's arguments.

    Each is called on a thread of its own. Raises what `run_on_devices` raises.
    """
    rendezvous = DeviceRendezvous(
        program.replicas, program.partitions, timeout_seconds=timeout_seconds
    )
    results: list[Any] = [None] * program.devices
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            with rendezvous.device(number):
                results[number] = call(*arguments[number])
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(i,), name=f"device {i}", daemon=True)
        for i in range(program.devices)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        rendezvous.fail(f"the run was ended: {type(error).__name__}")
        raise
    if errors:
        raise next((x for x in errors if not isinstance(x, RendezvousError)), errors[0])
    return results


@final
class WholeArrayCalls:
    """A function of whole arrays: it cuts them, runs `call` for each device, and joins results.

    `call` runs `program`, that of one device.
    """

    def __init__(
        self, parts: DeviceParts, program: NativeProgram, call: Callable[..., Any]
    ) -> None:
        self.parts = parts
        self._program = program
        self._call = call

    def __call__(self, *arrays: Any, consume: bool = False) -> Any:
        """Return the whole results; no argument is written to, with `consume` neither.

        Raises InputError where an argument does not fit, and what `run_on_devices` raises.
        """
        tiles = self.parts.dealt(arrays)
        found = on_threads(self._program, self._call, tiles)
        whole = self.parts.whole([value_leaves(x) for x in found])
        return nested(self._program.interface.structure, whole)
