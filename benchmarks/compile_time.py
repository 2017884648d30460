"""Where the time of a compilation goes, by stage.

    python benchmarks/compile_time.py [MODULE ...]

Each module is planned twice in one process, after a small one that loads what every compilation
needs: once by the clock of the processor, once under a profile, which counts calls of Python
functions. Counts do not depend on what else the machine does; the parts of the stages are those of
the profile. Without modules five examples of different kind are taken: a small step, one with
convolutions, loops, a transformer's inference, and a large step. The table is that of
`docs/compile_time.md`.

With `--small` programs of 1 to 30 elementwise operations are compiled to native code, from text and
without a cache: the least milliseconds of the processor of many compilations, LLVM's and the rest.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from pathlib import Path
from time import process_time
from typing import Any, Final

import lowtide
from lowtide import compiler
from lowtide.llvm.machine import KernelCompiler

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
FIVE: Final = ("mlp", "mnist_cnn", "lstm", "vit_b16", "resnet50")

STAGES: Final = {
    "choosing": (
        ("priority_fusion.py", "fuse_by_priority"),
        ("kernel_choices.py", "__init__"),
        ("kernel_choices.py", "within"),
        ("kernel_choices.py", "written"),
    ),
    "uniting": (("merging.py", "merge_kernels"),),
    "comparing": (("proposals.py", "needs"),),
    "ordering": (("ordering.py", "order"),),
    "packing": (("placing.py", "place"),),
    "report": (("reporting.py", "report"),),
}
"""By stage the functions that do it; what they do not do is passes that make no kernels."""

MANY: Final = 60
"""How often a small program is compiled."""

ANALYSES: Final = (("dataflow.py", "run"),)


def profiled(module: lowtide.Module) -> tuple[int, float, dict[Any, Any]]:
    """Return the calls of a compilation, its seconds under the profile, and those by function."""
    profile = cProfile.Profile(process_time)
    profile.enable()
    compiler.explain(module)
    profile.disable()
    stats: Any = pstats.Stats(profile)
    rows = {(Path(file).name, name): row for (file, _, name), row in stats.stats.items()}
    whole = rows["pipeline.py", "explain"][3]
    return stats.total_calls, whole, rows


def row_of(path: Path) -> str:
    """Compile a module and return its row of the table."""
    module = lowtide.read(str(path))
    start = process_time()
    compiler.explain(module)
    seconds = process_time() - start
    calls, whole, rows = profiled(module)
    parts = [sum([rows[x][3] for x in names if x in rows]) / whole for names in STAGES.values()]
    shares = " | ".join([f"{100 * x:.0f}%" for x in (1 - sum(parts), *parts)])
    analyses = sum([rows[x][0] for x in ANALYSES if x in rows])
    name = path.name.partition(".hlo")[0]
    return (
        f"| {name} | {module.instruction_count:,} | {seconds:.2f} | {calls / 1e6:.2f} | "
        f"{analyses} | {shares} |"
    )


def elementwise(count: int) -> str:
    """Return a program of so many operations, in turn, on numbers of 64 x 64."""
    names = ("add", "multiply", "subtract", "maximum")
    lines = ["a = f32[64,64] parameter(0)", "b = f32[64,64] parameter(1)"]
    for i in range(count):
        before = f"x{i - 1}" if i else "a"
        lines.append(f"x{i} = f32[64,64] {names[i % len(names)]}({before}, b)")
    lines[-1] = f"ROOT {lines[-1]}"
    return "HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


def small() -> None:
    """Print the milliseconds that small programs take to compile."""
    in_llvm = [0.0]
    make = KernelCompiler.object_code

    def timed(compiler: KernelCompiler, *given: Any, **how: Any) -> bytes:
        start = process_time()
        code = make(compiler, *given, **how)
        in_llvm[0] += process_time() - start
        return code

    KernelCompiler.object_code = timed  # type: ignore[method-assign]
    print("| operations | ms | LLVM | rest |")
    print("|--:|--:|--:|--:|")
    for count in (1, 5, 15, 30):
        text, found = elementwise(count), []
        for _ in range(MANY):
            in_llvm[0], start = 0.0, process_time()
            lowtide.compile(lowtide.parse_hlo(text), cache=False)
            found.append((process_time() - start, in_llvm[0]))
        whole, llvm = (1e3 * min(x) for x in zip(*found, strict=True))
        rest = 1e3 * min([x - y for x, y in found])
        print(f"| {count} | {whole:.1f} | {llvm:.1f} | {rest:.1f} |")


def main(given: list[str]) -> None:
    """Print the table."""
    if given == ["--small"]:
        small()
        return
    paths = [Path(x) for x in given] or [EXAMPLES / f"{x}.hlo.xz" for x in FIVE]
    compiler.explain(lowtide.read(str(EXAMPLES / "mlp.hlo.xz")))
    stages = ("passes", *STAGES)
    print("| module | instructions | s | M calls | dataflow |", *[f"{x} |" for x in stages])
    print("|---|--:|--:|--:|--:|" + "--:|" * len(stages))
    for path in paths:
        print(row_of(path), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
