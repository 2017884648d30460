"""The prototype of a loop form beside today's templates for graphics processors, without one.

    python -m benchmarks.loop_form_on_gpus [--target cuda:sm_90] FILE ...

Plans each module (HLO text), takes the kernels for which today's templates of points, sums, rows or
transposes are chosen, and writes, compiles and assembles each in both ways. Prints by template how
many nests are written for, and sums: milliseconds of CPU time for texts and for LLVM, launches,
instructions of PTX, accesses of memory among them, those of 16 bytes, registers, spilled bytes.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.loop_form.gpu import plan_thread_nests
from benchmarks.loop_form_measured import kernels_of

from lowtide.codegen.gpu.kernel import GpuPlan
from lowtide.codegen.gpu.kernels import written_kernel
from lowtide.codegen.gpu.select import gpu_plan
from lowtide.codegen.likeness import likeness
from lowtide.codegen.program import NO_CODE
from lowtide.compiler import PlanOptions, plan
from lowtide.files.object_cache import ObjectCache
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.target_record import GPU_TARGET
from lowtide.ir import Instruction
from lowtide.ir.errors import LowtideError
from lowtide.llvm.named_targets import gpu_target
from lowtide.llvm.ptx import ptx_of
from lowtide.llvm.target import Target
from lowtide.runtime.gpu.assembling import assembled

_TEMPLATES: Final = ("points", "sums", "rows", "turned")
_FIGURES: Final = (
    "text ms",
    "llvm ms",
    "launches",
    "ptx",
    "accesses",
    "wide",
    "registers",
    "spilled",
)
_ACCESS: Final = re.compile(r"\b(ld|st)\.(global|param)?\S*")
_WIDE: Final = re.compile(r"\b(ld|st)\.global\S*\.v4\.\S*32|\b(ld|st)\.global\S*\.v2\.\S*64")


def figures(x: Instruction, planned: Callable[[], GpuPlan | None], target: Target) -> Any:
    """Return the figures of a kernel as it is planned, None where it is not."""
    least = 1e9
    for _ in range(3):
        start = time.process_time()
        made = planned()
        if made is None:
            return None
        kernel, text = written_kernel(x, made)
        least = min(least, time.process_time() - start)
    start = time.process_time()
    ptx = ptx_of(text, target)
    compiling = time.process_time() - start
    lines = [y for y in ptx.splitlines() if y.startswith("\t") and y.rstrip().endswith(";")]
    lines = [y for y in lines if not y.startswith("\t.")]
    taken = assembled(ptx, target.cpu, ObjectCache(None)).resources.values()
    return (
        least * 1e3,
        compiling * 1e3,
        len(kernel.launches),
        len(lines),
        len([y for y in lines if re.search(r"\b(ld|st)\.global", y)]),
        len([y for y in lines if _WIDE.search(y)]),
        max([y.registers for y in taken]),
        sum([y.spilled for y in taken]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--target", default="cuda:sm_90")
    given = parser.parse_args()
    target, seen = gpu_target(given.target), set[Any]()
    found: dict[str, list[Any]] = defaultdict(list)
    missing: dict[str, int] = defaultdict(int)
    for path in given.files:
        planned = plan(parse_hlo(path.read_text()), PlanOptions(target=GPU_TARGET)).module
        for x in kernels_of(planned):
            if x.opcode in NO_CODE or likeness(x) in seen:
                continue
            seen.add(likeness(x))
            try:
                old = gpu_plan(x, target)
            except LowtideError:
                continue
            if old.template not in _TEMPLATES or not old.emit().launches:
                continue
            mine = figures(x, lambda x=x: plan_thread_nests(x, target), target)
            if mine is None:
                missing[old.template] += 1
                continue
            found[old.template].append((figures(x, lambda x=x: gpu_plan(x, target), target), mine))
    for template in _TEMPLATES:
        pairs = found[template]
        print(f"{template}: {len(pairs)} kernels, {missing[template]} without nests")
        for place, name in enumerate(_FIGURES):
            old, new = (sum([x[side][place] for x in pairs]) for side in range(2))
            print(f"  {name:10} {old:12.1f} {new:12.1f}  {new / old if old else 0:.3f}")


if __name__ == "__main__":
    main()
