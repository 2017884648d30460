"""Programs with recorded results of XLA:CPU: the evaluator, native code, an emulated GPU.

    python benchmarks/recorded_programs.py [--every N] [--write docs/validation.md]
    python benchmarks/recorded_programs.py --ways gpu --every 5 --write docs/gpu.md

A process of its own runs the programs, so that one that never ends or dies takes nothing with it.
Prints each miss with its reason, then the rates; `--write` puts both into a section of a document.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.ways_to_run import run, run_emulated, run_native

from asked_process import AskedProcess, NoAnswerError
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import Array
from sections import replace_section

RECORD = Path(__file__).parents[2] / "shared" / "conformance"
DEADLINE_SECONDS = 60.0
"""Processor time of the process for one program, of all its threads."""

WAYS: dict[str, Callable[[str, Sequence[Array]], list[Array]]] = {
    "evaluator": run,
    "native": run_native,
    "gpu": run_emulated,
}


@dataclass
class Rates:
    """How many programs were run, and why some fail, by the way they were run."""

    misses: dict[str, dict[str, str]]
    count: int = 0


class Record:
    """The recorded programs, with what they take and return."""

    def __init__(self) -> None:
        spec = importlib.util.spec_from_file_location("execute", RECORD / "execute.py")
        assert spec is not None and spec.loader is not None
        self.execute: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.execute)
        index, self.outputs = self.execute.load(RECORD / "execution.npz")
        texts = self.execute.texts(RECORD / "hlo_text.jsonl.xz")
        self.text = {x["id"]: x["text"] for x in texts}
        self.items = [x for x in index["items"] if x["status"] == "ok" and x["id"] in self.text]

    def reason(self, item: Any, way: str) -> str:
        """Return why a program fails, "" where it does not."""
        inputs = self.execute.inputs(item["inputs"], item["seed"], item["low"])
        try:
            got = WAYS[way](self.text[item["id"]], inputs)
        except UnsupportedOpError as error:
            return f"unsupported: {_first_line(error)}"
        except Exception as error:
            return f"{type(error).__name__}: {_first_line(error)}"
        found: str | None = self.execute.mismatch(got, self.outputs(item), item["outputs"])
        return f"wrong: {found}" if found else ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def serve(pipe: Connection) -> None:
    """Answer (position, way) by a reason."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    record = Record()
    while True:
        try:
            position, way = pipe.recv()
        except EOFError:
            return
        pipe.send(record.reason(record.items[position], way))


def reason(process: AskedProcess, position: int, way: str) -> str:
    """Return why a program fails, "" where it does not."""
    process.ask((position, way))
    try:
        found: str = process.message()
    except NoAnswerError as error:
        return _REASONS[error.kind]
    return found


_REASONS = {
    "hang": f"does not end in {DEADLINE_SECONDS:.0f} s of processor time",
    "crash": "the process dies",
}


def rates(every: int, ways: Sequence[str]) -> Rates:
    """Run each `every`-th program in some ways."""
    record, found = Record(), Rates({x: {} for x in ways})
    process = AskedProcess(serve, DEADLINE_SECONDS)
    positions = range(0, len(record.items), every)
    for done, position in enumerate(positions):
        found.count += 1
        for way in ways:
            if words := reason(process, position, way):
                name = record.items[position]["id"]
                found.misses[way][name] = words
                print(f"{way}: {name}: {words}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{done + 1} of {len(positions)}", end="", file=sys.stderr)
    process.close()
    return found


def to_markdown(found: Rates) -> str:
    """Return the rates and the misses."""
    lines = ["| run by | equal to XLA:CPU | of |", "|---|--:|--:|"]
    lines += [
        f"| {x} | {found.count - len(y):,} | {found.count:,} |" for x, y in found.misses.items()
    ]
    lines.append("")
    for way, misses in found.misses.items():
        lines += [f"- {way}, `{name}`: {reason}" for name, reason in misses.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--ways", default="evaluator,native", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    ways = options.ways.split(",")
    if unknown := [x for x in ways if x not in WAYS]:
        parser.error(f"--ways: no way {unknown[0]!r}; there are {', '.join(WAYS)}")
    text = to_markdown(rates(options.every, ways))
    print(text)
    if options.write is not None:
        replace_section(options.write, "recorded", text)


if __name__ == "__main__":
    main()
