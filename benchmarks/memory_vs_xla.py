"""Compare the memory of real modules, optimized and planned here, with what XLA:CPU takes.

    python benchmarks/memory_vs_xla.py [--modules FOLDER] [--baseline CSV] [--all]
                                       [--write docs/memory_vs_xla.md]
    python benchmarks/memory_vs_xla.py --compile FILE [FILE ...]

The baseline holds, per module, the figures of XLA:CPU in four configurations; the best one counts:
`temp + output - alias`. Ours is `arena_bytes` of the same, and the bytes of constants that passes
made. Modules of several partitions are left out unless `--all` is given. With `--compile`, jaxlib
compiles the files here and now in these configurations, which takes a minute for large ones.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Final

import lowtide
from jax_programs import MEMORY_SCHEDULER
from lowtide import compiler
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.ir import Module, Opcode
from lowtide.report.memory import MemoryReport
from lowtide.report.peak import PeakBuffer

SHARED: Final = Path(__file__).parents[2] / "shared"
MOSTLY_OUTPUTS: Final = 0.9
"""A module is not averaged whose unaliased outputs are a larger part of what XLA takes."""

LISTED: Final = 6
"""Buffers listed of each peak."""


@dataclass(frozen=True)
class Row:
    """One module; sizes in bytes."""

    name: str
    instructions: int
    ours: int
    made_constants: int
    xla: int
    configuration: str
    outputs: int
    report: MemoryReport
    seconds: float

    @property
    def ratio(self) -> float:
        """Ours by XLA's."""
        return (self.ours + self.made_constants) / self.xla

    @property
    def is_averaged(self) -> bool:
        """Whether there is something to save."""
        return self.outputs <= MOSTLY_OUTPUTS * self.xla


Best = tuple[int, str]


def best_of_xla(path: Path) -> dict[str, Best]:
    """Return the least bytes beyond arguments by module, and the configuration that has them."""
    best: dict[str, Best] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["error"]:
                continue
            nbytes = sum(int(row[x]) for x in ("temp_bytes", "output_bytes"))
            found = nbytes - int(row["alias_bytes"]), row["config"]
            best[row["module"]] = min(best.get(row["module"], found), found)
    return best


def constant_bytes(module: Module) -> int:
    """Return the bytes of all constants of several elements."""
    instructions = [x for c in module.computations.values() for x in c.instructions.values()]
    constants = [x for x in instructions if x.opcode is Opcode.CONSTANT]
    return sum([x.shape.nbytes for x in constants if x.shape.element_count > 1])


CONFIGURATIONS: Final = {
    "default": {},
    "memory_scheduler": MEMORY_SCHEDULER,
    "ynn_off": {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INVALID"},
    "ynn_off_memory_scheduler": {
        "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INVALID",
        **MEMORY_SCHEDULER,
    },
}
"""What the baseline and `--compile` set: XLA's options by name."""


def compiled_by_xla(module: Module) -> Best:
    """Return the least bytes beyond arguments that XLA:CPU takes, and with which configuration."""
    import jax
    from jaxlib import _jax, xla_client

    computation = xla_client.XlaComputation(write_hlo_module_proto(module))
    program = _jax.mlir.xla_computation_to_mlir_module(computation)
    devices = jax.local_devices()[:1]
    found = []
    for name, values in CONFIGURATIONS.items():
        options = xla_client.CompileOptions()
        options.env_option_overrides = list(values.items())
        made = devices[0].client.compile_and_load(
            program, xla_client.DeviceList(tuple(devices)), options
        )
        memory = made.get_compiled_memory_stats()
        nbytes = memory.temp_size_in_bytes + memory.output_size_in_bytes
        found.append((nbytes - memory.alias_size_in_bytes, name))
    return min(found)


def modules(folder: Path, baseline: Path, *, several: bool) -> Iterator[tuple[str, Module, Best]]:
    """Yield the modules that the baseline has figures for, with them."""
    best = best_of_xla(baseline)
    for path in sorted(folder.iterdir()):
        name = path.name.partition(".hlo")[0]
        if name not in best:
            continue
        module = lowtide.read(path)
        if module.num_partitions == 1 or several:
            yield name, module, best[name]


def measured(found: Iterable[tuple[str, Module, Best]]) -> Iterator[Row]:
    """Optimize and plan modules."""
    for name, module, (nbytes, configuration) in found:
        start = time.perf_counter()
        plan = compiler.plan(module)
        seconds = time.perf_counter() - start
        made = max(0, constant_bytes(plan.module) - constant_bytes(module))
        report = plan.report
        outputs = report.output_bytes - report.alias_bytes
        ours = report.ladder.arena_bytes
        count = module.instruction_count
        yield Row(name, count, ours, made, nbytes, configuration, outputs, report, seconds)


# -- the page ----------------------------------------------------------------------------------


def is_language_model_inference(row: Row) -> bool:
    """Whether XLA keeps copies of stacked weights: prefill and generate steps."""
    return row.name.endswith((".prefill", ".generate"))


def summary(rows: Sequence[Row]) -> list[str]:
    """Return geometric means and how many modules need at most what XLA takes."""
    lines = []
    kinds = {"prefill and generate of language models": True, "all other modules": False}
    for title, wanted in kinds.items():
        chosen = [x for x in rows if x.is_averaged and is_language_model_inference(x) is wanted]
        if not chosen:
            continue
        mean = exp(sum([log(x.ratio) for x in chosen]) / len(chosen))
        at_most = sum([x.ratio <= 1 for x in chosen])
        lines.append(
            f"- {title}: {len(chosen)} modules, geometric mean {mean:.3f}, at most XLA's on "
            f"{at_most} ({at_most / len(chosen):.0%})"
        )
    listed = [x.name for x in rows if not x.is_averaged]
    if listed:
        lines.append(f"- mostly outputs, hence not averaged: {', '.join(listed)}")
    return lines


def line(row: Row) -> str:
    """Return a line of the table."""
    return (
        f"| {row.name} | {row.instructions:,} | {row.xla / 1e6:,.1f} | {row.configuration} "
        f"| {row.ours / 1e6:,.1f} | {row.made_constants / 1e6:,.3f} "
        f"| {row.ratio:.3f}{'' if row.is_averaged else ' (outputs)'} |"
    )


def peak(row: Row) -> list[str]:
    """Return what a module's peak is made of."""
    report = row.report
    total = sum([x.nbytes for x in report.peak.buffers])
    lines = [
        "",
        f"### {row.name}: {row.ratio:.3f}",
        "",
        f"Live {report.ladder.live_bytes / 1e6:,.1f} MB at step {report.peak.position:,}, the "
        f"least of any order is {report.ladder.bound_bytes / 1e6:,.1f}.",
        "",
        "| MB | share | buffers | made at |",
        "|--:|--:|---|---|",
    ]
    groups: Counter[tuple[str, str, str]] = Counter()
    counts: Counter[tuple[str, str, str]] = Counter()
    for buffer in report.peak.buffers:
        key = buffer.opcode, buffer.shape, _place(buffer)
        groups[key] += buffer.nbytes
        counts[key] += 1
    for key, nbytes in groups.most_common(LISTED):
        opcode, shape, place = key
        times = f"{counts[key]} x " if counts[key] > 1 else ""
        lines.append(
            f"| {nbytes / 1e6:,.1f} | {nbytes / max(1, total):.0%} | {times}{opcode} "
            f"`{shape}` | {place} |"
        )
    return lines


def _place(buffer: PeakBuffer) -> str:
    if buffer.kind != "temporary":
        return buffer.kind
    source = buffer.source
    if source is not None:
        return f"{Path(source.file).name}:{source.line} {source.function}".strip()
    return buffer.op_name.rpartition("/")[2] or "without a source line"


def document(rows: Sequence[Row]) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Memory beside XLA:CPU's",
            "",
            "Written by `python benchmarks/memory_vs_xla.py --write docs/memory_vs_xla.md`. MB are",
            "10^6 bytes beyond arguments: `temp + output - alias`; XLA's are those of the best of",
            "four configurations. Left out on both sides: scratch memory inside kernels and of",
            "libraries, the code, the runtime. `constants` are those that passes made; they count",
            "in the ratio.",
            "",
            *summary(rows),
            "",
            "| module | instructions | XLA | configuration | ours | constants | ratio |",
            "|---|--:|--:|---|--:|--:|--:|",
            *[line(x) for x in rows],
            "",
            "## What the peaks are made of",
            "",
            "The buffers that live where most are, largest first, equal ones together.",
            *[text for x in sorted(rows, key=lambda x: -x.ratio) for text in peak(x)],
            "",
        ]
    )


def main() -> None:
    """Measure, print the summary, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modules", type=Path, default=SHARED / "corpus")
    parser.add_argument(
        "--baseline", type=Path, default=SHARED / "knowledge" / "xla_cpu_baseline.csv"
    )
    parser.add_argument("--all", action="store_true", help="modules of several partitions, too")
    parser.add_argument("--compile", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.compile:
        read = [(x.name.partition(".hlo")[0], lowtide.read(x)) for x in options.compile]
        found = iter([(name, module, compiled_by_xla(module)) for name, module in read])
    else:
        found = modules(options.modules, options.baseline, several=options.all)
    rows: list[Row] = []
    for row in measured(found):
        print(line(row), f"{row.seconds:.1f} s", flush=True)
        rows.append(row)
    print("\n".join(summary(rows)))
    if options.write is not None:
        options.write.write_text(document(rows))


if __name__ == "__main__":
    main()
