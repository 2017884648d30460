"""`lowtide run` of programs of several devices: arguments are dealt out, results put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lowtide.cli.runs import Runs, timed
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.outputs import Output
    from lowtide.cli.programs import NamedProgram
    from lowtide.evaluator.evaluate import Leaf
    from lowtide.ir import Module
    from lowtide.ir.literal import Array
    from lowtide.options import Options
    from lowtide.spmd.partitioner import Partitioned


@dataclass(frozen=True, slots=True)
class ProgramOnDevices:
    """The program of each of several devices: `parts` say what is whose, where it was cut here."""

    program: NamedProgram
    devices: int
    parts: Partitioned | None = None

    @property
    def module(self) -> Module:
        """The program of one device."""
        return self.program.module


def device_program(program: NamedProgram) -> ProgramOnDevices | None:
    """Return the program of each device, None for one that runs on a single device.

    A module that has shardings is partitioned. Raises InputError and UnsupportedOpError where that
    cannot be done.
    """
    from lowtide.cli.progress import progress
    from lowtide.ir.partitioning import MOST_RUN, check_device_count, takes_whole_arrays
    from lowtide.ops.device_groups import devices_of, meets_devices

    module = program.module
    devices = devices_of(module)
    if devices == 1:
        return None
    is_split = program.executable is None and takes_whole_arrays(module)
    if is_split or meets_devices(module):
        check_device_count(module, MOST_RUN)
    from lowtide.spmd.partitioner import partition  # Programs of one device need none of it.

    if is_split:
        with progress(f"partitioning {module.name}"):
            parts = partition(module)
        made = replace(program, found=replace(program.found, module=parts.module))
        return ProgramOnDevices(made, devices_of(parts.module), parts)
    return ProgramOnDevices(program, devices) if meets_devices(module) else None


def dealt(
    program: ProgramOnDevices, leaves: Sequence[Leaf], arguments: Sequence[Any]
) -> list[list[Any]]:
    """Return the arguments of each device.

    Whole arrays are cut. Where the module was partitioned before, each device gets its row of an
    array with one more dimension in front, of as many rows as devices, and all of any other.
    """
    from lowtide.spmd.shards import cut

    if program.parts is not None:
        pairs = zip(arguments, program.parts.parameters, strict=True)
        tiles = [cut(array, sharding, program.parts.grid) for array, sharding in pairs]
        count = program.parts.grid.count  # Each replica has all of them.
        return [[tile[i % count] for tile in tiles] for i in range(program.devices)]
    arrays = [np.asarray(x) for x in arguments]
    count = program.devices
    in_rows = [
        x.shape == (count, *leaf.shape.dimensions) for x, leaf in zip(arrays, leaves, strict=True)
    ]
    return [
        [x[i] if is_row else x for x, is_row in zip(arrays, in_rows, strict=True)]
        for i in range(count)
    ]


def generated_for(program: ProgramOnDevices, leaves: Sequence[Leaf], seed: int) -> list[Any]:
    """Return generated arguments: whole arrays, or a row for each device with a seed of its own."""
    from lowtide.cli.inputs import generated

    if program.parts is not None:
        return list(generated(leaves, seed))
    found = [generated(leaves, seed + i) for i in range(program.devices)]
    return [np.stack(rows) for rows in zip(*found, strict=True)]


def runs_on_devices(
    program: ProgramOnDevices, arguments: Sequence[Sequence[Any]], options: Options, repeat: int
) -> Runs:
    """Run natively on all devices; the result has those of each one."""
    from lowtide.cli.programs import executable_of
    from lowtide.cli.progress import progress
    from lowtide.client.executable.on_devices import run_on_devices

    executable = executable_of(program.program, options)
    with progress(f"running {executable.name}"):
        found, first, seconds = timed(lambda: run_on_devices(executable, arguments), repeat)
    return Runs(
        "native",
        found,
        seconds,
        f"native code on {program.devices} devices, arena of {executable.arena_bytes:,} bytes each",
        first if repeat > 1 else None,
        document={"devices": program.devices, "arena_bytes": executable.arena_bytes},
    )


def reference_on_devices(
    program: ProgramOnDevices, arguments: Sequence[Sequence[Any]], seed: int, repeat: int
) -> Runs:
    """Run in the evaluator on all devices; the result has those of each one."""
    from lowtide.cli.progress import progress
    from lowtide.evaluator.on_devices import evaluate_on_devices

    module = program.module
    with progress(f"running {module.name}"):
        found, first, seconds = timed(
            lambda: evaluate_on_devices(module, arguments, seed=seed), repeat
        )
    how = f"reference evaluator on {program.devices} devices"
    apart = first if repeat > 1 else None
    document: dict[str, object] = {"devices": program.devices}
    return Runs("reference", found, seconds, how, apart, document=document)


def sanitized_on_devices(
    program: ProgramOnDevices, arguments: Sequence[Sequence[Any]], options: Options
) -> Runs:
    """Run thunk by thunk under watch; raises SanitizerError at the first fault."""
    from lowtide.cli.programs import while_compiling
    from lowtide.cli.progress import progress
    from lowtide.client.executable.anew import compile_anew
    from lowtide.inspection.device_sanitizer import check_on_devices

    executable = program.program.executable
    if executable is not None:
        native, module = executable.program, executable.module
    else:
        made = while_compiling(
            program.module, lambda progress: compile_anew(program.module, options, progress)
        )
        native, module = made.program, made.plan.module
    with progress(f"checking {module.name}"):
        found = check_on_devices(native, module, arguments)
    skipped = f"; not compared: {', '.join(found.not_compared)}" if found.not_compared else ""
    return Runs(
        "sanitizer",
        found.result,
        [found.seconds],
        f"native code thunk by thunk on {program.devices} devices",
        remarks=[
            f"{found.thunks:,} thunks wrote what they must, nothing else, and what the evaluator "
            f"computes{skipped}"
        ],
        document={
            "devices": program.devices,
            "thunks": found.thunks,
            "not_compared": list(found.not_compared),
        },
    )


def joined_results(program: ProgramOnDevices, whole: Module, found: Sequence[Any]) -> list[Output]:
    """Return the results of all devices: whole arrays, or with a row for each device.

    `whole` is the module as it was given.
    """
    from lowtide.cli.outputs import Output
    from lowtide.cli.runs import results_of
    from lowtide.ir.shape import array_shape
    from lowtide.spmd.shards import joined

    each = [results_of(program.module, one) for one in found]
    if program.parts is not None:
        each = each[: program.parts.grid.count]
    columns = zip(*each, strict=True)
    if program.parts is None:
        return [
            Output(
                column[0].index,
                array_shape(
                    column[0].shape.element_type, (len(column), *column[0].shape.dimensions)
                ),
                _stacked([x.value for x in column]),
            )
            for column in columns
        ]
    shapes = [(i, x) for i, x in whole.entry.root.shape.leaves() if not x.is_token]
    rows = zip(columns, shapes, program.parts.results, strict=True)
    grid = program.parts.grid
    return [
        Output(index, shape, joined([x.value for x in column], sharding, grid, shape.dimensions))
        for column, (index, shape), sharding in rows
    ]


def _stacked(arrays: Sequence[Array]) -> Array:
    return np.stack([np.asarray(x) for x in arrays])
