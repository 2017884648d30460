"""The table of `vs_xla.py` in a document: each program in processes of its own.

Measured are calls with two threads and with one, compiling with an empty cache, and in a new
process with the one that this filled. A process that crashes or takes too long makes a row that
says so. Each measurement is a line of JSON in a file, so that a run which was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from sections import replace_section

SCRIPT = Path(__file__).with_name("vs_xla.py")

Record = dict[str, Any]


def write_document(given: argparse.Namespace) -> None:
    """Measure what has no results yet, and write the section "vs_xla" of a document."""
    results = given.results or given.document.with_suffix(".jsonl")
    known = read_results(results)
    names = [x for x in listed(given) if any(y in x for y in given.only.split(","))]
    for name in names:
        if name not in known:
            known[name] = measured(name, given)
            with results.open("a") as file:
                print(json.dumps({"name": name, **known[name]}), file=file)
        print(row(name, known[name]), flush=True)
    replace_section(given.document, "vs_xla", table({x: known[x] for x in names}))


def read_results(path: Path) -> dict[str, Record]:
    """Return what was measured before, by name; the last line may be cut off."""
    found: dict[str, Record] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        found[entry.pop("name")] = entry
    return found


# -- processes -----------------------------------------------------------------------------------


def listed(given: argparse.Namespace) -> list[str]:
    """Return the names of all programs."""
    command = [sys.executable, SCRIPT, "--programs", given.programs, "--list"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def measured(name: str, given: argparse.Namespace) -> Record:
    """Run the processes of one program; what failed is told under "fault"."""
    found: Record = {}
    for threads in (2, 1):
        with tempfile.TemporaryDirectory(prefix="vs_xla-") as cache:
            found[str(threads)] = run(name, "cold", threads, cache, given)
            if threads == 2 and "fault" not in found["2"]:
                found["warm"] = run(name, "warm", threads, cache, given)
    return found


def run(name: str, kind: str, threads: int, cache: str, given: argparse.Namespace) -> Record:
    """Return what one process measured, or {"fault": what went wrong}."""
    command = [sys.executable, SCRIPT, "--programs", given.programs, "--scale", given.scale]
    command += ["--only", name, "--record", kind, "--threads", str(threads)]
    command += ["--seconds", str(given.seconds), *(["--avx2"] if given.avx2 else [])]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=given.timeout,
            env={**os.environ, "LOWTIDE_CACHE": cache},
        )
    except subprocess.TimeoutExpired:
        return {"fault": f"not done after {given.timeout:g} s"}
    if done.returncode < 0:
        return {"fault": f"crashed with signal {-done.returncode}"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"fault": lines[-1][:120]}
    found: Record = json.loads(done.stdout)
    return found


# -- the table -----------------------------------------------------------------------------------

HEADER = """\
| program | ours ms | XLA ms | speed | ours ms, 1 thread | XLA ms, 1 thread | speed, 1 thread \
| compile s | warm s | XLA s | memory MB | XLA MB | memory, 1 thread |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def row(name: str, found: Record) -> str:
    """Return one line of the table."""
    two, one, warm = found["2"], found["1"], found.get("warm", {})
    cells = [name, *times(two), *times(one)]
    cells += [figure(two, "our_compile", 1, 2), figure(warm, "warm", 1, 3)]
    cells += [figure(two, "their_compile", 1, 2), figure(two, "our_bytes", 1e-6, 1)]
    cells += [figure(two, "their_bytes", 1e-6, 1), figure(one, "our_bytes", 1e-6, 1)]
    faults = dict.fromkeys([x["fault"] for x in (two, one, warm) if "fault" in x])
    faults |= dict.fromkeys([x for y in (two, one) for x in y.get("differing", ())])
    if faults:
        cells[0] += f" ({'; '.join(faults)})"
    return f"| {' | '.join(cells)} |"


def times(found: Record) -> list[str]:
    """Return both sides' milliseconds and their ratio."""
    if "fault" in found:
        return ["-", "-", "-"]
    ratio = f"{found['theirs'] / found['ours']:.2f}"
    return [figure(found, "ours", 1e3, 3), figure(found, "theirs", 1e3, 3), ratio]


def figure(found: Record, key: str, factor: float, digits: int) -> str:
    """Return a number, or a dash where there is none."""
    return f"{found[key] * factor:.{digits}f}" if key in found else "-"


def table(found: dict[str, Record]) -> str:
    """Return the whole section: what came out in one sentence each, and a row per program."""
    lines = [*summary(found), "", HEADER, *[row(name, x) for name, x in found.items()]]
    return "\n".join(lines)


def summary(found: dict[str, Record]) -> list[str]:
    """Return geometric means, the least, and what takes more memory or compiles for longer."""
    lines = []
    for threads in ("2", "1"):
        whole = {name: x[threads] for name, x in found.items() if "fault" not in x[threads]}
        if not whole:
            continue
        speeds = {name: x["theirs"] / x["ours"] for name, x in whole.items()}
        least = min(speeds, key=speeds.__getitem__)
        larger = [name for name, x in whole.items() if x["our_bytes"] > x["their_bytes"]]
        lines.append(
            f"{threads} thread{'s' if threads == '2' else ''}, {len(whole)} of {len(found)} "
            f"programs: geometric mean {geometric_mean(speeds.values()):.2f}, least "
            f"{speeds[least]:.2f} ({least}). More memory than XLA: {', '.join(larger) or 'none'}."
        )
    return [*lines, *compile_summary(found)]


def compile_summary(found: dict[str, Record]) -> list[str]:
    """Return how long compiling takes beside XLA's."""
    whole = [x for x in found.values() if "fault" not in x["2"] and "warm" in x.get("warm", {})]
    if not whole:
        return []
    cold = [x["2"]["our_compile"] / x["2"]["their_compile"] for x in whole]
    warm = [x["warm"]["warm"] / x["2"]["their_compile"] for x in whole]
    return [
        f"Compiling takes {geometric_mean(cold):.2f} of XLA's time with an empty cache (geometric "
        f"mean; at most {max(cold):.2f}), {geometric_mean(warm):.3f} with a full one (at most "
        f"{max(warm):.2f})."
    ]
