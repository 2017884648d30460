"""Options of programs that run on several devices."""

from __future__ import annotations

from dataclasses import replace

from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.options import Options


def for_devices(options: Options, module: Module) -> Options:
    """Return options for a module: one thread a device of several, unless they say otherwise.

    Raises InputError where calls on several devices are to be checked.
    """
    if module.replica_count * module.num_partitions == 1:
        return options
    if options.check != "never":
        raise InputError(
            f"{module.name} runs on several devices, and calls are checked on one only: leave out "
            "check; `lowtide run --sanitize` checks each step on all devices"
        )
    return options if options.threads else replace(options, threads=1)
