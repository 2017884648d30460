"""Processor time of `explain` and of what it adds: changes of the program, and the page.

`python benchmarks/explain.py [MODULE ...]` plans each module by itself, with all changes
(`--what-if`) and with its page (`--html`), each in a process of its own, and prints seconds of
processor time, so that other work on the machine does not count. The changes are to take at most
three times as long as the plan, and the page at most a second; the exit status is 1 where not.
Without modules, the steps of ResNet-50 in the shared corpus and in the examples are taken.

`python benchmarks/explain.py --growth` plans two generated training steps, all in the entry and
with computations per layer, of some 6,000 and of some 60,000 instructions, and prints by how much
the seconds grow for each time that the instructions do: 1 is linear.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

ROOT = Path(__file__).parents[1]
MOST_TIMES = 3.0
MOST_SECONDS = 1.0
SIZES = 6_000, 60_000
RUNS = 3
"""Each command runs so many times; the shortest counts."""


def seconds(module: Path, *options: str) -> float:
    """Return the processor time of one `lowtide explain`, its threads included."""
    command = [sys.executable, "-m", "lowtide", "explain", str(module), *options]
    found = []
    for _ in range(RUNS if "--what-if" not in options else 1):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        user = after.children_user - before.children_user
        found.append(user + after.children_system - before.children_system)
    return min(found)


def growth() -> None:
    """Print seconds of small and large generated modules, and how they grow."""
    sys.path.insert(0, str(ROOT))
    from tests.generated.layers import layered_module

    import lowtide
    from lowtide import compiler

    compiler.explain(lowtide.read(ROOT / "examples" / "mlp.hlo.xz"))  # Loads what all need.
    print(
        f"{'module':<10} {'instructions':>12} {'s':>6} {'instructions':>12} {'s':>6} {'growth':>7}"
    )
    for name, calls in (("in entry", False), ("calls", True)):
        row = []
        for size in SIZES:
            module = layered_module(size, calls=calls)
            start = process_time()
            compiler.explain(module)
            row.append((module.instruction_count, process_time() - start))
        (few, short), (many, long) = row
        times = (long / short) / (many / few)
        print(f"{name:<10} {few:>12,} {short:>6.2f} {many:>12,} {long:>6.2f} {times:>7.2f}")


def main(given: list[str]) -> int:
    """Print the times of each module; return 1 where any is too long."""
    if given == ["--growth"]:
        growth()
        return 0
    named = [Path(x) for x in given] or [
        *sorted((ROOT.parent / "shared" / "corpus").glob("resnet50.train*")),
        ROOT / "examples" / "resnet50.hlo.xz",
    ]
    failed = False
    print(f"{'module':<36} {'plan, s':>8} {'what-if':>8} {'times':>6} {'page, s':>8}")
    for module in named:
        plan, changes = seconds(module), seconds(module, "--what-if")
        with tempfile.TemporaryDirectory() as folder:
            page = seconds(module, "--html", str(Path(folder) / "page.html")) - plan
        failed |= changes > MOST_TIMES * plan or page > MOST_SECONDS
        name = module.name.partition(".hlo")[0]
        print(f"{name:<36} {plan:>8.1f} {changes:>8.1f} {changes / plan:>6.2f} {page:>8.2f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
