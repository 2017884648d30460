"""Kernels for GPUs of all programs at hand, assembled by ptxas: what they take, and what fails.

    python benchmarks/gpu_kernels.py [--every N] [--seconds S] [--state FILE] [--write docs/gpu.md]

Needs no GPU, and runs nothing on one. Modules are written in a process of their own, which ends
where LLVM ends it; each that takes longer than S seconds is left out and named. A program is
planned once, with the scratch of the first target; each target has its own kernels of that plan.
Small programs come first. Of recorded programs each N-th is taken. `--state` keeps the answers
program by program, so that a run that was stopped goes on; programs of another tree are planned
again. A kernel is assembled once, whichever programs and trees have it: its name tells its text.
`--write` puts the table into a section of a document.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

import llvmlite

import lowtide.llvm
from asked_process import AskedProcess, NoAnswerError
from code_version import code_version
from gpu_occupancy import occupancy
from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.client.executable.device_parts import device_parts
from lowtide.client.gpu import kept
from lowtide.compiler import ModulePlan
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.options import Options
from lowtide.runtime.gpu.assembling import KernelResources, assembler_version
from lowtide.runtime.gpu.program import GpuProgram
from sections import replace_section

EXAMPLES = Path(__file__).parents[1] / "examples"
CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
TARGETS = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100")

Row = tuple[str, str, int, int, int, int, int]
"""Template, function, registers, bytes (shared, stack, spilled), and threads of a block."""


@dataclass
class Table:
    """What the kernels of one target take, by function, and why modules fail."""

    modules: int = 0
    kernels: dict[str, Row] = field(default_factory=dict)
    misses: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, answer: list[Row] | str) -> None:
        """Take the kernels of a module, or why there are none."""
        self.modules += 1
        if isinstance(answer, str):
            self.misses[name] = answer
        else:
            self.kernels |= {x[1]: x for x in answer}


class Assembled:
    """The kernels of one target that have been assembled, by function.

    `rows` are those of kernels that an earlier run has assembled.
    """

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self.resources: dict[str, KernelResources] = {}
        self._known = rows

    def rows(self, program: GpuProgram) -> list[Row]:
        """Return what each kernel of a program takes; assembles those that are new."""
        for launch in [x for kernel in program.kernels for x in kernel.launches]:
            if launch.function in self._known:
                _, _, registers, shared, *rest, _ = self._known[launch.function]
                found = KernelResources(registers, shared - launch.shared_bytes, *rest)
                self.resources[launch.function] = found
        texts = [
            x for x in program.texts if any(y not in self.resources for y in _KERNEL.findall(x))
        ]
        new = {x for text in texts for x in _KERNEL.findall(text)}
        kernels = [x for x in program.kernels if new & {y.function for y in x.launches}]
        if new:
            part = replace(program, texts=tuple(texts), kernels=tuple(kernels))
            self.resources |= part.assembled(kept("cubins", Options())).resources
        found = []
        for kernel in program.kernels:
            for launch in kernel.launches:
                x = self.resources[launch.function]
                bytes_ = x.shared + launch.shared_bytes, x.stack, x.spilled
                row = kernel.template, launch.function, x.registers, *bytes_, launch.threads
                found.append(row)
        return found


_KERNEL = re.compile(r"^define ptx_kernel void @(\w+)\(", re.MULTILINE)


def serve(pipe: Connection) -> None:
    """Answer (name of a file or number of a recorded program, known rows by target, in order).

    The answer for each target are rows, or the reason why there are none.
    """
    done: dict[str, Assembled] = {}
    while True:
        try:
            what, known = pipe.recv()
        except EOFError:
            return
        programs = _Programs(what)
        for target, rows in known.items():
            try:
                program = programs.of(target)
                pipe.send(done.setdefault(target, Assembled(rows)).rows(program))
            except Exception as error:
                pipe.send(_reason(error))


class _Programs:
    """The programs of a module, whose plan is made for the first target that is asked for."""

    def __init__(self, what: str | int) -> None:
        self.what = what
        self.plan: ModulePlan | None = None

    def of(self, target: str) -> GpuProgram:
        """Return the program for a target."""
        backend = GpuBackend(target)
        if self.plan is not None:
            return backend.kernels().program(self.plan)
        built = build(device_parts(_module(self.what)).module, backend)
        self.plan = built.plan
        return built.program


def _reason(error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0][:160]
    kind = "unsupported" if isinstance(error, UnsupportedOpError) else type(error).__name__
    return f"{kind}: {said}"


def _module(what: str | int) -> Module:
    if isinstance(what, str):
        return read(what)
    from recorded_programs import Record

    record = Record()
    return parse_hlo(record.text[record.items[what]["id"]])


def programs(every: int) -> Iterator[tuple[str, str | int]]:
    """Yield kind and name of each program."""
    paths = [x for folder in (EXAMPLES, CORPUS) for x in folder.glob("*.hlo*")]
    for path in sorted(paths, key=lambda x: (x.stat().st_size, x.name)):
        yield path.parent.name, str(path)
    if every:
        from recorded_programs import Record

        for number in range(0, len(Record().items), every):
            yield "recorded", number


def tables(
    every: int, seconds: float, targets: tuple[str, ...], state: Path | None
) -> dict[str, Table]:
    """Assemble all kernels of all programs for each target."""
    found = {x: Table() for x in targets}
    programs_, kernels = _known(state, targets)
    process = AskedProcess(serve, seconds)
    for kind, what in programs(every):
        name = f"{kind}/{Path(what).name.split('.hlo')[0] if isinstance(what, str) else what}"
        answers = programs_.get(name) or _answers(process, what, kernels, seconds)
        if state is not None and name not in programs_:
            with state.open("a") as file:
                file.write(json.dumps([code_version(), _compiler(), name, answers]) + "\n")
        for target, table in found.items():
            table.add(name, answers[target])
            if name in table.misses:
                print(f"{target}: {name}: {table.misses[name]}", flush=True)
    process.close()
    return found


Answers = dict[str, list[Row] | str]
"""By target the kernels of a program, or why there are none."""


def _known(
    state: Path | None, targets: tuple[str, ...]
) -> tuple[dict[str, Answers], dict[str, dict[str, Row]]]:
    """Of earlier runs the answers of this tree, by program, and by target the rows of any tree."""
    programs_: dict[str, Answers] = {}
    kernels: dict[str, dict[str, Row]] = {x: {} for x in targets}
    lines = state.read_text().splitlines() if state is not None and state.exists() else []
    for tree, compiler, name, answers in [json.loads(x) for x in lines]:
        if compiler != _compiler():
            continue
        if tree == code_version() and set(answers) >= set(targets):
            programs_[name] = answers
        for target, rows in kernels.items():
            found = answers.get(target, "")
            rows |= {} if isinstance(found, str) else {x[1]: x for x in found}
    return programs_, kernels


@cache
def _compiler() -> str:
    """What makes machine code of a kernel's text: its versions, and the code of the package."""
    files = sorted(Path(lowtide.llvm.__path__[0]).glob("*.py"))
    code = sha256(b"".join([x.read_bytes() for x in files])).hexdigest()[:12]
    return f"{assembler_version()}, llvmlite {llvmlite.__version__}, {code}"


def _answers(
    process: AskedProcess, what: str | int, known: dict[str, dict[str, Row]], seconds: float
) -> Answers:
    """What a program's kernels take for each target, or why there are none."""
    process.ask((what, known))
    found: Answers = {}
    lost = ""
    for target in known:
        try:
            found[target] = lost or process.message()
        except NoAnswerError as error:
            lost = {"hang": f"more than {seconds:.0f} s"}.get(error.kind, "the process dies")
            found[target] = lost
    return found


def section(found: dict[str, Table]) -> str:
    """Return the section of the document."""
    lines = [
        f"ptxas: {assembler_version()}; code: {code_version()}",
        "",
        "| target | template | kernels | registers, median | most | shared, most bytes "
        "| occupancy, median | least | with stack | spilling |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for target, table in found.items():
        for template in sorted({x[0] for x in table.kernels.values()}):
            mine = [x for x in table.kernels.values() if x[0] == template]
            registers = sorted([x[2] for x in mine])
            filled = sorted([occupancy(target, x[2], x[3], x[6]) for x in mine])
            lines.append(
                f"| {target} | {template} | {len(mine):,} | {registers[len(mine) // 2]} "
                f"| {registers[-1]} | {max(x[3] for x in mine):,} "
                f"| {filled[len(filled) // 2]:.2f} | {filled[0]:.2f} "
                f"| {sum(x[4] > 0 for x in mine):,} | {sum(x[5] > 0 for x in mine):,} |"
            )
    lines.append("")
    for target, table in found.items():
        done = table.modules - len(table.misses)
        lines.append(f"{target}: {done:,} of {table.modules:,} programs assembled.")
    reasons = Counter(
        [f"{name}: {x}" for table in found.values() for name, x in table.misses.items()]
    )
    lines += ["", *[f"- {x}" for x in reasons]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=0, help="take each N-th recorded program")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--state", type=Path, help="a file that keeps the answers")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    found = tables(given.every, given.seconds, tuple(given.targets.split(",")), given.state)
    text = section(found)
    print(text)
    if given.write is not None:
        replace_section(given.write, "gpu kernels", text)
    sys.exit(any(x[5] for t in found.values() for x in t.kernels.values() if x[0] in _MATRICES))


_MATRICES = ("ffma", "mma", "wgmma")
"""Templates whose kernels must not spill."""

if __name__ == "__main__":
    main()
