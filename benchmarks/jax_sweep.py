"""Every function of JAX's libraries on the platform "lowtide" beside XLA:CPU, in one process.

    python benchmarks/jax_sweep.py --state FILE [--rooms jax.numpy,jax.lax] [--x64] [--most 24]
    python benchmarks/jax_sweep.py --state FILE [--types int4,float8_e5m2] [--keys rbg]
    python benchmarks/jax_sweep.py --state FILE --write docs/jax_suite.md

Patterns of arguments are tried on each function: shapes without elements, of size 1, scalars, with
infinities, NaNs and the ends of integers, in each element type. `jax_sweep_programs` and
`jax_sweep_libraries` have programs that patterns do not reach. What JAX can trace runs jitted on
both platforms, some of it under `grad` and `vmap` and operation by operation. FILE keeps what came
of each function, and the same command goes on from there. A function that kills the process or
computes for four minutes is a finding.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from asked_process import AskedProcess, NoAnswerError
from sections import replace_section

DEADLINE_SECONDS: Final = 240.0
MOST_CRASHES: Final = 6


def serve(types: tuple[str, ...], pipe: Connection) -> None:
    """Answer (function, labels to leave out, most cases) by ("at", label) and ("done", found).

    `types` are the element types that are tried; without any, those of JAX's width.
    """
    from jax_sweep_child import TYPES, sweep

    while True:
        try:
            name, left_out, most = pipe.recv()
        except EOFError:
            return
        at = partial(_told, pipe)
        pipe.send(("done", sweep(name, set(left_out), at, most, types or TYPES)))


def _told(pipe: Connection, label: str) -> None:
    pipe.send(("at", label))


def ask(process: AskedProcess, name: str, most: int) -> dict[str, Any]:
    """Return what came of a function: `cases`, and `differences` by the label of a case.

    `most` is how many cases run at most, beside those under `grad` and `vmap`.
    """
    ends: dict[str, str] = {}
    for _ in range(MOST_CRASHES):
        process.ask((name, list(ends), most))
        at = "start"
        try:
            while (message := process.message())[0] == "at":
                at = message[1]
        except NoAnswerError as error:
            ends[at] = f"ours refuses: {error.kind}"
            continue
        found: dict[str, Any] = message[1]
        return {**found, "differences": {**found["differences"], **ends}}
    return {"cases": 0, "differences": ends}


def kept(state: Path) -> dict[str, dict[str, Any]]:
    """Return what came of the functions that have run, by name."""
    if not state.exists():
        return {}
    rows = [json.loads(line) for line in state.read_text().splitlines()]
    return {row["name"]: row for row in rows}


def to_markdown(rows: dict[str, dict[str, Any]]) -> str:
    """Return a table by module, and each function of which a case differs, with its first one."""
    functions, cases, differing, refused = (
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
    )
    for name, row in rows.items():
        module = name.rpartition(".")[0]
        functions[module] += row["cases"] > 0
        cases[module] += row["cases"]
        for words in row["differences"].values():
            differing[module] += "refuses" not in words
            refused[module] += words.startswith("ours refuses")
    lines = ["| module | functions | cases | differ | refused here only |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| `{x}` | {functions[x]} | {cases[x]:,} | {differing[x]} | {refused[x]} |"
        for x in functions
    ]
    lines.append("")
    for name, row in rows.items():
        found = {k: v for k, v in row["differences"].items() if not v.startswith("theirs")}
        if found:
            label, words = next(iter(found.items()))
            lines.append(f"- `{name}`, {len(found)} cases; of {label}: {words}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--rooms", default="", help="modules, separated by commas; all without")
    parser.add_argument("--only", default="", help="a part of the names of functions")
    parser.add_argument("--x64", action="store_true", help="the element types of 64 bits")
    parser.add_argument("--types", default="", help="element types, separated by commas")
    parser.add_argument(
        "--keys", default="threefry2x32", help="how keys of random numbers are made"
    )
    parser.add_argument("--most", type=int, default=1000, help="cases of a function, at most")
    parser.add_argument("--write", type=Path, help="put what FILE holds into a document")
    options = parser.parse_args()
    if options.write:
        replace_section(options.write, "sweep", to_markdown(kept(options.state)))
        return
    os.environ["JAX_PLATFORMS"] = "lowtide,cpu"
    os.environ["JAX_ENABLE_X64"] = str(int(options.x64))
    os.environ["JAX_DEFAULT_PRNG_IMPL"] = options.keys
    os.environ["JAX_TRACEBACK_FILTERING"] = "off"
    from jax_sweep_cases import functions

    done = kept(options.state)
    types = tuple(options.types.split(",")) if options.types else ()
    process = AskedProcess(partial(serve, types), DEADLINE_SECONDS)
    for name in functions(options.rooms.split(",") if options.rooms else ()):
        if name in done or options.only not in name:
            continue
        row = {"name": name, **ask(process, name, options.most)}
        print(name, row["cases"], flush=True)
        for label, words in row["differences"].items():
            print("   ", label, "|", words, flush=True)
        with options.state.open("a") as file:
            file.write(json.dumps(row) + "\n")
    process.close()


if __name__ == "__main__":
    main()
