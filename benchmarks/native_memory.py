"""The memory that a call takes, measured, beside the plan.

    python benchmarks/native_memory.py [--least 64] [--threads 2] [--only NAME,...]
                                       [--programs FILE] [--examples]

For each program that plans at least so many megabytes beyond its arguments: the rise of the
process's greatest resident set over the second call. Before it, memory kept from the first call is
given back, the mark is set to what is resident (/proc/self/clear_refs), and huge pages are off.
Arguments that may be overwritten are (consume=True). Each program runs in a process of its own.
FILE registers programs as `jax_programs.py` says; --examples takes those of
`examples/` instead. Exit status 1 where the two differ by more than 3% and 4 MB.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = ROOT.parent / "shared" / "benchmarks" / "jax_corpus.py"
MEGABYTE: Final = 1_000_000
SHARE: Final = 0.03
SLACK: Final = 4 * MEGABYTE


def resident(field: str) -> int:
    """Return a field of the process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise KeyError(field)


def settled() -> int:
    """Return the resident set once what is kept for later is given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        # What the C library keeps in the heaps of ended threads is its own affair.
        trim(0)
    return resident("VmRSS")


def risen(call: Any) -> int:
    """Return by how many bytes the resident set rises, at most, while a function runs."""
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    result = call()
    after = resident("VmHWM")
    del result
    return after - before


def program_named(path: str, name: str) -> tuple[Any, list[Any]]:
    """Return a module and arguments for it."""
    from jax_programs import jax_programs

    for program in jax_programs(Path(path), "medium"):
        if program.name == name:
            return program.module(), program.arguments()
    raise SystemExit(f"no program {name!r} in {path}")


def example_named(name: str) -> tuple[Any, list[Any]]:
    """Return an example of this repository, and small numbers as arguments."""
    import lowtide
    from lowtide.testing.check_pass import seeded_arguments

    module = lowtide.read(ROOT / "examples" / f"{name}.hlo.xz")
    return module, seeded_arguments(module, 0)


def measure(module: Any, arguments: list[Any], least: int, threads: int) -> dict[str, Any]:
    """Return plan and rise of a program, the rise 0 where the plan is small."""
    import numpy as np

    from lowtide.client.executable import compile_module
    from lowtide.options import Options

    options = Options(threads=threads, cache=False, huge_pages=False)
    executable = compile_module(module, options)
    ladder = executable.memory["ladder"]
    found = {"plan": ladder["arena_bytes"], "scratch": executable.memory["scratch_bytes"]}
    if found["plan"] < least:
        return {**found, "rise": 0}
    executable(*[np.array(x) for x in arguments], consume=True)
    executable.release_memory()
    given = [np.array(x) for x in arguments]
    return {**found, "rise": risen(lambda: executable(*given, consume=True))}


def in_child(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Measure one program in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--programs", arguments.programs]
    command += ["--least", str(arguments.least), "--threads", str(arguments.threads)]
    command += ["--examples"] if arguments.examples else []
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if run.returncode:
        return {"error": run.returncode}
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def names_of(arguments: argparse.Namespace) -> list[str]:
    """Return the names of all programs."""
    if arguments.examples:
        return sorted(x.name.split(".")[0] for x in (ROOT / "examples").glob("*.hlo.xz"))
    from jax_programs import jax_programs

    return [x.name for x in jax_programs(Path(arguments.programs), "small")]


def report(name: str, found: dict[str, Any]) -> bool:
    """Print a row; return whether measured and planned agree."""
    if "error" in found:
        print(f"{name:34} ended with status {found['error']}", flush=True)
        return False
    if not found["rise"]:
        return True
    plan, rise = found["plan"], found["rise"]
    fits: bool = abs(rise - plan) <= SHARE * plan + SLACK
    columns = [plan, rise, rise - plan, found["scratch"]]
    shown = "".join([f"{x / MEGABYTE:12.1f}" for x in columns])
    print(f"{name:34}{shown}  {'' if fits else 'DIFFERS'}", flush=True)
    return fits


def main() -> None:
    """Measure all programs, or one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--least", type=float, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--programs", default=str(PROGRAMS))
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--one", default="")
    given = parser.parse_args()
    if given.one:
        load = example_named if given.examples else lambda x: program_named(given.programs, x)
        print(json.dumps(measure(*load(given.one), int(given.least * MEGABYTE), given.threads)))
        return
    print(f"{'megabytes':34}{'plan':>12}{'rise':>12}{'apart':>12}{'scratch':>12}")
    wanted = given.only.split(",") if given.only else names_of(given)
    agree = [report(name, in_child(given, name)) for name in wanted]
    sys.exit(not all(agree))


if __name__ == "__main__":
    main()
