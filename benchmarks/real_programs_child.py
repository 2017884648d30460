"""A program of `real_programs/` in a process of its own, driven by `real_programs.py`.

    python benchmarks/real_programs_child.py PROGRAM

The first line of output is what compiling and the first run gave. Then each line of input is a
number of seconds: for so long, and three times at least, the program runs again, and a line says
the least seconds of one run, of the clock and of the processor.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import jax
from jax._src import compiler

from lowtide.inspection.xla_program import needed_bytes


def processor_seconds() -> float:
    """Return the seconds of processors that this process and those it waited for took."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def compilations_timed() -> Iterator[list[float]]:
    """Add the processor's seconds of each compilation meanwhile to the list that is given."""
    seconds: list[float] = []
    plain = compiler.backend_compile_and_load

    def timed(*given: Any, **named: Any) -> Any:
        start = processor_seconds()
        try:
            return plain(*given, **named)
        finally:
            seconds.append(processor_seconds() - start)

    compiler.backend_compile_and_load = timed
    try:
        yield seconds
    finally:
        compiler.backend_compile_and_load = plain


def highest_resident() -> int:
    """Return the most bytes that were resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def least_seconds(run: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the least seconds of a run, of the clock and of the processor."""
    walls, processors = [], []
    end = perf_counter() + seconds
    while len(walls) < 3 or perf_counter() < end:
        wall, processor = perf_counter(), process_time()
        run()
        walls.append(perf_counter() - wall)
        processors.append(process_time() - processor)
    return min(walls), min(processors)


def main() -> None:
    """Run the program by what the standard input says."""
    sys.path.insert(0, str(Path(__file__).parent / "real_programs"))
    program = importlib.import_module(sys.argv[1])
    with compilations_timed() as seconds:
        arguments = program.arguments()
        results = program.run(*arguments)
    highest = highest_resident()
    compiled = program.step.lower(*arguments).compile()
    plan = getattr(compiled, "compiled", compiled).memory_analysis()
    answer = {
        "results": results,
        "compile": sum(seconds),
        "highest": highest,
        "needed": needed_bytes(plan),
        "platform": jax.default_backend(),
    }
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        print(json.dumps(least_seconds(lambda: program.run(*arguments), float(line))), flush=True)


if __name__ == "__main__":
    main()
