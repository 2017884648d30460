"""Evaluation of a program of one device on all devices, which exchange values as it says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from lowtide.evaluator.device_groups import GroupDevice
from lowtide.evaluator.evaluate import arguments_of
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.rendezvous import Rendezvous
from lowtide.evaluator.values import Value
from lowtide.ir.errors import InputError
from lowtide.ir.module import Module
from lowtide.ir.partitioning import MOST_RUN, check_device_count, check_partitioned
from lowtide.ops.device_groups import check_members


def evaluate_on_devices(
    module: Module, arguments: Sequence[Sequence[Any]], *, seed: int = 0
) -> list[Value]:
    """Return what each device computes: replica 0 with its partitions, then replica 1, ...

    `arguments` are those of each device, in the same order, each as `evaluate` takes them. Raises
    InputError where they do not fit, UnsupportedOpError at what cannot be evaluated, and
    InvalidModuleError where devices wait for each other.
    """
    check_device_count(module, MOST_RUN)
    count = module.replica_count * module.num_partitions
    if len(arguments) != count:
        raise InputError(f"{module.name} runs on {count} devices, found {len(arguments)} lists")
    check_partitioned(module)
    check_members(module)
    rendezvous = Rendezvous(count)
    values = [arguments_of(module, own) for own in arguments]
    results: list[Value | None] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        rendezvous.start()
        try:
            device = GroupDevice(number, module.replica_count, module.num_partitions, rendezvous)
            interpreter = Interpreter(module, seed=seed, device=device)
            results[number] = interpreter.run(module.entry, values[number])
        except BaseException as error:
            errors.append(error)
        finally:
            rendezvous.finish()

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]  # Later ones are of devices that waited for the failed one.
    return [result for result in results if result is not None]
