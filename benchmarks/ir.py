"""Cost of parsing, verifying and printing a module, per instruction, against a plain loop.

    python benchmarks/ir.py [MODULE.hlo.txt.xz ...]

The unit is one iteration of `for i in range(n): d[i & 1023] = (i,)`, timed in the same process
between the runs, so that the figures carry over from machine to machine. Without arguments: the
four largest modules of the corpus, or of `examples/` where there is none. Best of five runs.
"""

from __future__ import annotations

import argparse
import gc
import lzma
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.verifier import verify

ROOT = Path(__file__).parents[1]
RUNS = 5


def unit() -> float:
    """Return the seconds of one iteration of the loop."""
    n = 1_000_000
    d: dict[int, tuple[int]] = {}
    start = perf_counter()
    for i in range(n):
        d[i & 1023] = (i,)
    return (perf_counter() - start) / n


def best(action: Callable[[], object]) -> float:
    """Return the units that an action takes at best."""
    ratios = []
    for _ in range(RUNS):
        gc.collect()
        before = unit()
        start = perf_counter()
        result = action()
        seconds = perf_counter() - start
        del result
        ratios.append(seconds / min(before, unit()))
    return min(ratios)


def largest(count: int) -> list[Path]:
    """Return the largest modules at hand."""
    folder = ROOT.parent / "shared" / "corpus"
    paths = list((folder if folder.is_dir() else ROOT / "examples").glob("*.xz"))
    return sorted(paths, key=lambda path: -path.stat().st_size)[:count]


def main() -> None:
    """Print one line a module."""
    parser = argparse.ArgumentParser(description="cost of parse, verify and print")
    parser.add_argument("modules", nargs="*", type=Path)
    paths = parser.parse_args().modules or largest(4)
    print(f"{'module':44s} {'instructions':>12s} {'parse':>7s} {'verify':>7s} {'print':>7s}")
    for path in paths:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
        module = parse_hlo(text)
        count = module.instruction_count
        parse = best(lambda text=text: parse_hlo(text)) / count
        check = best(lambda module=module: verify(module)) / count
        show = best(lambda module=module: str(module)) / count
        name = path.name.removesuffix(".xz")
        print(f"{name:44s} {count:12d} {parse:7.0f} {check:7.0f} {show:7.0f}")


if __name__ == "__main__":
    main()
