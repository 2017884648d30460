"""Instructions of the main loops of products on GPUs: a bound on how much of the peak they reach.

    python benchmarks/gpu_instructions.py [--write docs/gpu.md]

Needs no GPU: kernels are assembled by ptxas and read back by nvdisasm (package
nvidia-cuda-nvdisasm). Of the loop with the most products its instructions are counted, the
products among them, and the bytes that the threads of a warp load from shared memory and store
there. A multiprocessor has four schedulers, each of which issues one instruction a cycle, and
shared memory that moves 128 bytes a cycle. The bound is of these two alone: waits, memory and
occupancy can only lower it. Bytes that several
threads ask for count for each of them, as they go to the registers of each.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gpu_occupancy import resident_warps
from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.client.gpu import kept
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options
from lowtide.runtime.gpu.assembling import assembler_version
from sections import replace_section

TARGETS = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100")

SCHEDULERS = 4
SHARED_BYTES = 128
"""Schedulers of a multiprocessor, and bytes that its shared memory moves in a cycle."""

CYCLES = {
    "HMMA": {"sm_80": 8.0, "sm_90a": 4.0, "sm_100": 4.0},
    "FFMA": {"sm_80": 2.0, "sm_90a": 1.0, "sm_100": 1.0},
    "DMMA": {"sm_80": 16.0, "sm_90a": 32.0, "sm_100": 16.0},
    "IMMA": {"sm_80": 8.0, "sm_90a": 4.0, "sm_100": 4.0},
    "IMAD": {"sm_80": 2.0, "sm_90a": 2.0, "sm_100": 2.0},
}
"""Cycles that a scheduler's unit is busy with one product of a warp.

By the makers' peaks of dense arithmetic: 1,024, 2,048 and 2,048 products of bf16 a cycle and
multiprocessor by `mma.sync`, a fourth of which is a scheduler's; 64, 128 and 128 of f32.
For sm_100 those of sm_90a are taken; its tensor cores reach more by other instructions. Products of
bytes take as long as those of half as many numbers of 16 bits. Those of f64 are 16x8x8 on sm_90a,
128 products a cycle and multiprocessor, and 8x8x4 elsewhere, 64.
"""

NAMES = {"HMMA": "HMMA.16816.F32", "DMMA": "DMMA.", "IMMA": "IMMA.16832"}
"""How products are named that have other names than their kind."""

TENSOR = ("HMMA", "DMMA", "IMMA")
"""Products of matrices, of whose operands each thread has other ones."""

PROGRAM = """HloModule m

ENTRY e {{
  x = {type}[{rows},{depth}] parameter(0)
  y = {type}[{depth},{columns}] parameter(1)
  ROOT d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""

ATTENTION = """HloModule m

largest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}

ENTRY e {{
  q = {type}[64,1024,64] parameter(0)
  k = {type}[64,1024,64] parameter(1)
  v = {type}[64,1024,64] parameter(2)
  low = f32[] constant(-inf)
  none = f32[] constant(0)
  scores = f32[64,1024,1024] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  top = f32[64,1024] reduce(scores, low), dimensions={{2}}, to_apply=largest
  tops = f32[64,1024,1024] broadcast(top), dimensions={{0,1}}
  less = f32[64,1024,1024] subtract(scores, tops)
  powers = f32[64,1024,1024] exponential(less)
  sum = f32[64,1024] reduce(powers, none), dimensions={{2}}, to_apply=add
  sums = f32[64,1024,1024] broadcast(sum), dimensions={{0,1}}
  parts = f32[64,1024,1024] divide(powers, sums)
  weights = {type}[64,1024,1024] convert(parts)
  ROOT d = f32[64,1024,64] dot(weights, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
"""

CASES = {
    "f32, 2,048 x 2,048 x 2,048": PROGRAM.format(type="f32", rows=2048, columns=2048, depth=2048),
    "f32, 256 x 256 x 256": PROGRAM.format(type="f32", rows=256, columns=256, depth=256),
    "bf16, 2,048 x 2,048 x 2,048": PROGRAM.format(type="bf16", rows=2048, columns=2048, depth=2048),
    "f16, 2,048 x 2,048 x 2,048": PROGRAM.format(type="f16", rows=2048, columns=2048, depth=2048),
    "bf16, 256 x 256 x 256": PROGRAM.format(type="bf16", rows=256, columns=256, depth=256),
    "s8 as s32, 2,048 x 2,048 x 2,048": PROGRAM.replace("f32[", "s32[").format(
        type="s8", rows=2048, columns=2048, depth=2048
    ),
    "f64, 2,048 x 2,048 x 2,048": PROGRAM.replace("f32[", "f64[").format(
        type="f64", rows=2048, columns=2048, depth=2048
    ),
    "attention, bf16": ATTENTION.format(type="bf16"),
    "attention, f32": ATTENTION.format(type="f32"),
}

_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)(.*?);")
_BRANCH = re.compile(r"`\((\.L_\w+)\)")


@dataclass(frozen=True)
class Loop:
    """The main loop of a kernel: instructions, products and bytes of shared memory of a warp.

    Of loops within it one turn is counted.
    """

    kind: str
    instructions: int
    products: int
    loaded: int
    stored: int
    has_loops: bool

    def bound(self, architecture: str) -> float:
        """Return the part of the peak that the loop may reach at most."""
        busy = CYCLES[self.kind][architecture] * self.products
        moved = self.loaded + self.stored
        return busy / max(busy, self.instructions, moved * SCHEDULERS / SHARED_BYTES)


def disassembler() -> str:
    """Return the path of nvdisasm in a wheel."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder).glob("*/bin/nvdisasm"))
        if found:
            return str(found[0])
    sys.exit("there is no nvdisasm: `pip install nvidia-cuda-nvdisasm` installs it")


def main_loop(text: str) -> Loop:
    """Return the loop with the most products of a kernel's machine code.

    Where that has none, as its steps are written out, it is all of the code.
    """
    lines = list(_lines(text))
    labels = {name: at for at, (name, _) in enumerate(lines) if name.startswith(".L_")}
    loops = []
    for end, (name, rest) in enumerate(lines):
        target = _BRANCH.search(rest) if name.startswith("BRA") else None
        start = labels.get(target[1], end) if target else end
        if start < end:
            loops.append(_loop([x for x, _ in lines[start : end + 1]]))
    best = max(loops, key=lambda x: x.products, default=None)
    return best if best and best.products else _loop([x for x, _ in lines])


def _loop(lines: list[str]) -> Loop:
    """Counts of some instructions, whose products are of the kind that there is most of."""
    names = [x for x in lines if not x.startswith(".L_")]
    has_loops = sum([x.startswith("BRA") for x in names]) > 1
    counts = {
        kind: sum([x == kind or x.startswith(NAMES.get(kind, f"{kind}.F32")) for x in names])
        for kind in CYCLES
    }
    kind = max(counts, key=lambda x: (x in TENSOR and counts[x] > 0, counts[x]))
    loaded, stored = [sum([_shared_bytes(x, y) for x in names]) for y in ("LDS", "STS")]
    return Loop(kind, len(names), counts[kind], loaded, stored, has_loops)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Labels, and names of instructions with what follows."""
    for line in text.splitlines():
        if label := _LABEL.match(line):
            yield label[1], ""
        elif found := _INSTRUCTION.search(line):
            yield found[1], found[2]


def _shared_bytes(name: str, what: str) -> int:
    """The bytes that the 32 threads of a warp move by an instruction that loads or stores."""
    first, *parts = name.split(".")
    if first == "LDSM" and what == "LDS":
        return 32 * 4 * int(parts[-1])
    if first != what:
        return 0
    widths = [int(x.lstrip("US")) for x in parts if x.lstrip("US").isdecimal()]
    return 32 * (widths or [32])[0] // 8


def rows(name: str, text: str, target: str) -> Iterator[str]:
    """Yield a line of the table for each product of a program."""
    program = build(parse_hlo(text), GpuBackend(target)).program
    cubin = program.assembled(kept("cubins", Options()))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.image)
        file.flush()
        command = [disassembler(), "-c", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    kernels = [x for x in program.kernels if x.template in ("ffma", "mma", "dmma")]
    for number, kernel in enumerate(kernels):
        launch = kernel.launches[0]
        (code,) = re.findall(
            rf"^\.text\.{launch.function}:$(.*?)(?=^\.text\.|\Z)", done.stdout, re.M | re.S
        )
        which = f", product {number + 1}" if len(kernels) > 1 else ""
        loop = main_loop(code)
        found = cubin.resources[launch.function]
        shared = found.shared + launch.shared_bytes
        resident = resident_warps(target, found.registers, shared, launch.threads)
        share = loop.products / loop.instructions
        per_loaded = loop.products / loop.loaded * 1024 if loop.loaded else 0.0
        more = "+" if loop.has_loops else ""
        yield (
            f"| {target} | {name}{which} | {kernel.template} | {loop.instructions}{more} "
            f"| {loop.products} | {share:.2f} | {per_loaded:.1f} | {loop.stored} "
            f"| {found.registers} | {resident} "
            f"| {loop.bound(target.removeprefix('cuda:')):.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = [
        f"ptxas: {assembler_version()}",
        "",
        "| target | product | template | instructions of the loop | products among them | share "
        "| products per KiB asked of shared memory | bytes stored there | registers "
        "| warps resident | bound |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for target in TARGETS:
        for name, text in CASES.items():
            lines += rows(name, text, target)
    print("\n".join(lines))
    if given.write is not None:
        replace_section(given.write, "gpu instructions", "\n".join(lines))


if __name__ == "__main__":
    main()
