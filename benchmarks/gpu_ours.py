"""The process of `gpu.py` that runs our kernels: on the card, or on the emulated device.

It answers requests one after another. A card that a kernel has made useless is so for the whole
process, which is ended after any error then: the next request gets a new one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from gpu_cases import SMALL_PROGRAMS, Case, cases
from gpu_differences import apart, first_difference
from gpu_profile import profile
from jax_programs import jax_programs
from lowtide.backends.build import Build
from lowtide.cli.inputs import generated
from lowtide.client.gpu import built_for_gpu
from lowtide.emulator.device import EmulatedDriver, on_emulated_device
from lowtide.evaluator import array_leaves, evaluate
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.side_by_side import without_aliases
from lowtide.ir import Module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.gpu_names import EMULATED, GPU_PREFIX
from lowtide.options import Options
from lowtide.runtime.gpu.cuda_calls import cuda_version
from lowtide.runtime.gpu.driver import Driver
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram

Answer = dict[str, Any]


def serve(pipe: Connection) -> None:
    """Answer (what, target, others) by what was found, or an error in one line."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    while True:
        try:
            what, target, others = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(REQUESTS[what](target, *others))
        except UnsupportedOpError as error:
            pipe.send({"refused": _line(error)})
        except Exception as error:
            pipe.send({"error": f"{type(error).__name__}: {_line(error)}"})


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]


# -- the device ------------------------------------------------------------------------------------


@cache
def driver_of(target: str) -> Driver:
    if target == EMULATED:
        return EmulatedDriver()
    from lowtide.backends.kept import kept
    from lowtide.runtime.gpu.cuda import CudaDriver

    return CudaDriver(kept("cubins", Options()))


@cache
def architecture(target: str) -> str:
    """What programs are compiled for."""
    driver: Any = driver_of(target)
    return target if target != GPU_PREFIX else f"{GPU_PREFIX}:{driver.architecture}"


def device(target: str) -> Answer:
    """What is known of the device, and of what makes its code."""
    driver: Any = driver_of(target)
    free, whole = driver.room()
    found = {
        "name": driver.name,
        "bytes": whole,
        "free_bytes": free,
        "target": architecture(target),
    }
    if target != EMULATED:
        calls = driver.calls
        found["cuda"] = cuda_version(calls.number)
        found["multiprocessors"] = calls.attribute("MULTIPROCESSOR_COUNT")
        found["kilohertz"] = calls.attribute("CLOCK_RATE")
        found["l2_bytes"] = calls.attribute("L2_CACHE_SIZE")
    try:
        from lowtide.runtime.gpu.assembling import assembler_version

        found["ptxas"] = assembler_version()
    except Exception:
        found["ptxas"] = "none: the driver assembles kernels"
    return found


def device_copy(target: str, nbytes: int, seconds: float) -> Answer:
    """The speed of copies within the device, bytes read and written counted."""
    driver = driver_of(target)
    stream = driver.stream()
    one, other = driver.allocate(nbytes), driver.allocate(nbytes)
    try:
        driver.upload(one, np.zeros(nbytes, np.uint8), stream)
        driver.synchronize(stream)
        took = timed(
            lambda: driver.copy(other, one, nbytes, stream),
            lambda: driver.synchronize(stream),
            seconds,
        )
    finally:
        driver.free(one)
        driver.free(other)
    return {"seconds": took, "bytes": 2 * nbytes}


def timed(run: Callable[[], None], wait: Callable[[], None], seconds: float) -> float:
    """The least seconds of a run in three rounds of about so many seconds.

    Two runs warm up: in the second one a graph is made.
    """
    for _ in range(2):
        run()
        wait()
    start = time.perf_counter()
    run()
    wait()
    once = max(time.perf_counter() - start, 1e-6)
    count = max(1, min(1000, round(seconds / 3 / once)))
    best = float("inf")
    for _ in range(3 if seconds else 1):
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def loaded(module: Module, target: str) -> tuple[Build[GpuProgram], LoadedGpuProgram, float]:
    """A module on the device, and the seconds that its compilation took."""
    start = time.perf_counter()
    options = Options(target=target, cache=True)
    built = built_for_gpu(module, architecture(target), options)
    program = LoadedGpuProgram(built.program, driver_of(target))
    return built, program, time.perf_counter() - start


def measured(
    module: Module, target: str, arguments: Sequence[Any], seconds: float
) -> tuple[Build[GpuProgram], list[Any], Answer]:
    """A module as it is built, the results of a call, and the seconds of a run and of compiling."""
    built, program, compiling = loaded(module, target)
    try:
        got = flat(program(*arguments))
        took = placed(program, arguments, seconds)
    finally:
        program.close()
    return built, got, {"seconds": took, "compile_seconds": compiling}


# -- single programs -------------------------------------------------------------------------------


def case(target: str, is_toy: bool, name: str, seconds: float) -> Answer:
    """A case by its part and name: whether its result is right, and the time of a run."""
    found = next(x for x in cases(is_toy) if f"{x.part}: {x.name}" == name)
    module = parse_hlo(found.text)
    arguments = drawn(module)
    built, got, times = measured(module, target, arguments, seconds)
    return {
        **times,
        "bytes": found.nbytes,
        "operations": found.operations,
        "kernels": sorted({x.template for x in built.program.kernels}),
        "apart": distance(found, module, arguments, got),
        "allowed": found.allowed,
    }


def distance(found: Case, module: Module, arguments: Sequence[Any], got: list[Any]) -> float:
    """How far the results are from the evaluator's; of products, of some of the rows."""
    if found.part != "products":
        pairs = zip(got, flat(evaluate(module, arguments)), strict=True)
        return max([apart(x, y) for x, y in pairs])
    x, y = arguments
    rows = np.random.default_rng(0).choice(len(x), min(len(x), 16), replace=False)
    wide = np.int64 if x.dtype.kind == "i" else np.float64
    wanted = x[rows].astype(wide) @ y.astype(wide)
    return apart(got[0][rows].astype(wide), wanted)


def drawn(module: Module) -> list[Any]:
    return generated(list(parameter_leaves(module)), 0)


def flat(result: Any) -> list[Any]:
    return [np.asarray(x) for x in array_leaves(result)]


# -- whole programs --------------------------------------------------------------------------------


@cache
def registered(file: str, scale: str) -> dict[str, Any]:
    """The programs of a file by name; they are lowered when they are asked for."""
    return {x.name: x for x in jax_programs(Path(file), scale)} if file else dict(SMALL_PROGRAMS)


def program_of(file: str, scale: str, name: str) -> tuple[Module, list[Any], float]:
    """Module, arguments and allowed error of a program."""
    found = registered(file, scale)[name]
    if not file:
        module = parse_hlo(found)
        return module, drawn(module), 2e-5
    return found.module(), found.arguments(), max(found.tolerance, 2e-5)


def names(target: str, file: str, scale: str) -> Answer:
    """The names of the programs that there are."""
    return {"names": list(registered(file, scale))}


def right(target: str, file: str, scale: str, name: str) -> Answer:
    """Whether a program gives what the evaluator does; if not, the first kernel that does not."""
    module, arguments, allowed = program_of(file, scale, name)
    built, program, compiling = loaded(module, target)
    try:
        got = flat(program(*arguments))
        wanted = flat(evaluate(module, arguments))
        worst = max([apart(x, y) for x, y in zip(got, wanted, strict=True)], default=0.0)
        found = {"apart": worst, "allowed": allowed, "compile_seconds": compiling}
        found["kernels"] = sum([len(x.launches) for x in built.program.kernels])
        if not worst <= allowed:
            found["first"] = first_wrong(built, program, arguments, allowed)
    finally:
        program.close()
    return found


def first_wrong(
    built: Build[GpuProgram], program: LoadedGpuProgram, arguments: list[Any], allowed: float
) -> str:
    """The first kernel that the device and the emulator run differently."""
    emulated = on_emulated_device(built.program)
    found = first_difference(built.plan.module, program, emulated, arguments, allowed)
    return found or "every kernel by itself does what the emulator does: look at the streams"


def speed(target: str, file: str, scale: str, name: str, seconds: float) -> Answer:
    """The time and the memory of a program, and how far it is from our code for the processor."""
    module, arguments, allowed = program_of(file, scale, name)
    module = without_aliases(module)
    built, got, times = measured(module, target, arguments, seconds)
    arena = built.plan.report.to_json()["ladder"]["arena_bytes"]
    return {
        **times,
        "memory_bytes": int(arena),
        "apart": beside_processor(module, arguments, got),
        "allowed": allowed,
    }


def beside_processor(module: Module, arguments: list[Any], got: list[Any]) -> float | str:
    """How far results are from those of our code for this processor, or why that is not known."""
    from lowtide.client.executable import compile_module

    try:
        wanted = flat(compile_module(module, replace(Options(), cache=False))(*arguments))
    except Exception as error:
        return f"{type(error).__name__}: {_line(error)}"
    return max([apart(x, y) for x, y in zip(got, wanted, strict=True)], default=0.0)


def kernels(target: str, file: str, scale: str, name: str, seconds: float) -> Answer:
    """The time of a program, by one stream too and for the host, beside those of its steps."""
    module, arguments, _ = program_of(file, scale, name)
    built, program, _ = loaded(without_aliases(module), target)
    try:
        found = {"seconds": placed(program, arguments, seconds)}
        found["host_seconds"] = host_seconds(program)
        program.place(*arguments)
        found |= profile(built.plan.module, program)
    finally:
        program.close()
    single = LoadedGpuProgram(built.program, driver_of(target), streams=1)
    try:
        found["one_stream_seconds"] = placed(single, arguments, seconds)
    finally:
        single.close()
    return found


def placed(program: LoadedGpuProgram, arguments: Sequence[Any], seconds: float) -> float:
    """The seconds of a run of a program on arguments."""
    program.place(*arguments)
    return timed(program.run, program.wait, seconds)


def host_seconds(program: LoadedGpuProgram) -> float:
    """The least seconds for which the host starts a run, when nothing else is started."""
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        program.run()
        best = min(best, time.perf_counter() - start)
        program.wait()
    return best


REQUESTS: dict[str, Callable[..., Answer]] = {
    "device": device,
    "copy": device_copy,
    "case": case,
    "names": names,
    "right": right,
    "speed": speed,
    "kernels": kernels,
}
