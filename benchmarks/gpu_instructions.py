"""Instructions of the main loops of products on GPUs: a bound on how much of the peak they reach.

    python benchmarks/gpu_instructions.py [--write docs/gpu.md]

Needs no GPU: kernels are assembled by ptxas and read back by nvdisasm (package
nvidia-cuda-nvdisasm). Of the loop with the most products its instructions are counted, the
products among them, and the bytes that the threads of a warp ask of shared memory (threads that ask
for the same bytes are given them at once, so that fewer may move). A multiprocessor has four
schedulers, each of which issues one instruction a cycle. The bound is of that alone: waits, memory
and occupancy can only lower it.
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

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.client.gpu import kept
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options
from lowtide.runtime.gpu.assembling import assembler_version
from sections import replace_section

TARGETS = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100")

CYCLES = {
    "HMMA": {"sm_80": 8.0, "sm_90a": 4.0, "sm_100": 4.0},
    "FFMA": {"sm_80": 2.0, "sm_90a": 1.0, "sm_100": 1.0},
}
"""Cycles that a scheduler's unit is busy with one product of a warp.

By the makers' peaks of dense arithmetic: 1,024, 2,048 and 2,048 products of bf16 a cycle and
multiprocessor by `mma.sync`, a fourth of which is a scheduler's; 64, 128 and 128 of f32. For
sm_100 those of sm_90a are taken; its tensor cores reach more by other instructions.
"""

PROGRAM = """HloModule m

ENTRY e {{
  x = {type}[{rows},{depth}] parameter(0)
  y = {type}[{depth},{columns}] parameter(1)
  ROOT d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""

CASES = {
    "f32, 2,048 x 2,048 x 2,048": PROGRAM.format(type="f32", rows=2048, columns=2048, depth=2048),
    "f32, 256 x 256 x 256": PROGRAM.format(type="f32", rows=256, columns=256, depth=256),
    "bf16, 2,048 x 2,048 x 2,048": PROGRAM.format(type="bf16", rows=2048, columns=2048, depth=2048),
    "f16, 2,048 x 2,048 x 2,048": PROGRAM.format(type="f16", rows=2048, columns=2048, depth=2048),
}

_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)(.*?);")
_BRANCH = re.compile(r"`\((\.L_\w+)\)")


@dataclass(frozen=True)
class Loop:
    """The main loop of a kernel: instructions, products and bytes of shared memory of a warp."""

    kind: str
    instructions: int
    products: int
    shared_bytes: int

    def bound(self, architecture: str) -> float:
        """Return the part of the peak that the loop may reach at most."""
        busy = CYCLES[self.kind][architecture] * self.products
        return busy / max(busy, self.instructions)


def disassembler() -> str:
    """Return the path of nvdisasm in a wheel."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder).glob("*/bin/nvdisasm"))
        if found:
            return str(found[0])
    sys.exit("there is no nvdisasm: `pip install nvidia-cuda-nvdisasm` installs it")


def main_loop(text: str) -> Loop:
    """Return the loop with the most products of a kernel's machine code."""
    lines = list(_lines(text))
    labels = {name: at for at, (name, _, _) in enumerate(lines) if name.startswith(".L_")}
    best = Loop("FFMA", 1, 0, 0)
    for end, (name, rest, _) in enumerate(lines):
        target = _BRANCH.search(rest) if name.startswith("BRA") else None
        start = labels.get(target[1], end) if target else end
        body = [x for x in lines[start:end] if not x[0].startswith(".L_")]
        for kind in CYCLES:
            products = sum([x[0].startswith(kind) for x in body])
            if products > best.products:
                shared = sum([_shared_bytes(x[0]) for x in body])
                best = Loop(kind, len(body) + 1, products, shared)
    return best


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        if label := _LABEL.match(line):
            yield label[1], "", line
        elif found := _INSTRUCTION.search(line):
            yield found[1], found[2], line


def _shared_bytes(name: str) -> int:
    """The bytes that the 32 threads of a warp load from shared memory by an instruction."""
    if name.startswith("LDSM"):
        return 32 * 4 * int(name[-1] if name[-1] in "24" else 1)
    if not name.startswith("LDS"):
        return 0
    width = next((int(x) for x in name.split(".") if x in ("64", "128")), 32)
    return 32 * width // 8


def row(name: str, text: str, target: str) -> str:
    """Return a line of the table."""
    program = build(parse_hlo(text), GpuBackend(target)).program
    cubin = program.assembled(kept("cubins", Options()))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.image)
        file.flush()
        command = [disassembler(), "-c", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    loop = main_loop(done.stdout)
    (kernel,) = program.kernels
    (launch,) = kernel.launches
    registers = cubin.resources[launch.function].registers
    resident = _blocks(registers, launch.threads)
    share = loop.products / loop.instructions
    per_byte = loop.products / loop.shared_bytes * 1024 if loop.shared_bytes else 0.0
    return (
        f"| {target} | {name} | {kernel.template} | {loop.instructions} | {loop.products} "
        f"| {share:.2f} | {per_byte:.1f} | {registers} | {resident * launch.threads // 32} "
        f"| {loop.bound(target.removeprefix('cuda:')):.2f} |"
    )


def _blocks(registers: int, threads: int) -> int:
    """How many blocks a multiprocessor has registers for, given out by 8 to a thread."""
    return (1 << 16) // (-(-registers // 8) * 8 * threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = [
        f"ptxas: {assembler_version()}",
        "",
        "| target | product | template | instructions of the loop | products among them | share "
        "| products per KiB asked of shared memory | registers | warps resident | bound |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [row(name, text, target) for target in TARGETS for name, text in CASES.items()]
    print("\n".join(lines))
    if given.write is not None:
        replace_section(given.write, "gpu instructions", "\n".join(lines))


if __name__ == "__main__":
    main()
