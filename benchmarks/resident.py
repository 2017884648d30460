"""Resident memory of user sessions on the plugin, beside XLA:CPU.

    python benchmarks/resident.py [--write docs/resident.md] [SESSION ...]

Each session of `resident_sessions.py` runs in a process of its own, on each platform in turn. The
cache on disk has lowtide's own code and the programs of earlier sessions; --cache FOLDER takes one
that is there. Columns in megabytes, ours and XLA:CPU's: the most that arrays
came to where the session could be looked at; the highest resident set of the process (VmHWM); what
is resident once all arrays are deleted and Python's garbage is collected; the same after
`jax.clear_caches()` too. "grown" counts from what was resident after `import jax; jax.devices()`.
Exit status 1 where a session does not end well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from typing import Any, Final

from sections import replace_section

HERE: Final = Path(__file__).parent
MEGABYTE: Final = 1_000_000
LEAST: Final = 4 * MEGABYTE
"""What growth counts at least, so that a ratio of small numbers says nothing that is not so."""

Answer = dict[str, int]

CHILD: Final = """
import gc, json, sys, time
import jax
devices = jax.devices()

def resident(field):
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith(field))

def settled():
    for _ in range(3):
        gc.collect()
        time.sleep(0.3)
    return resident("VmRSS")

found = {"base": settled(), "live": 0}
if sys.argv[1]:
    import resident_sessions
    session = getattr(resident_sessions, sys.argv[1])()
    for _ in session:
        live = sum(x.nbytes for x in jax.live_arrays())
        found["live"] = max(found["live"], live)
    del session
found["most"] = resident("VmHWM")
found["deleted"] = settled()
jax.clear_caches()
found["cleared"] = settled()
found["platform"] = devices[0].platform
print(json.dumps(found))
"""

FIGURES: Final = ("most", "deleted", "cleared")


def answer(name: str, platform: str, cache: Path) -> Answer:
    """Return what a session's process says of its memory; raises RuntimeError."""
    devices = "4" if name == "several_devices" else "1"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": platform,
        "XDG_CACHE_HOME": str(cache),
        "LOWTIDE_DEVICES": devices,
        "JAX_NUM_CPU_DEVICES": devices,
        "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} on {platform}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found.pop("platform") != platform:
        raise RuntimeError(f"{name} ran elsewhere than on {platform}")
    return found


def ratios(ours: Answer, theirs: Answer) -> list[float]:
    """Return our figures by theirs: of all that is resident, then of what it has grown."""
    whole = [ours[x] / theirs[x] for x in FIGURES]
    grown = [
        max(ours[x] - ours["base"], LEAST) / max(theirs[x] - theirs["base"], LEAST) for x in FIGURES
    ]
    return whole + grown


def row(name: str, ours: Answer, theirs: Answer) -> str:
    """Return the row of a session."""
    cells = [f"{ours['live'] / MEGABYTE:,.0f}"]
    cells += [f"{ours[x] / MEGABYTE:,.0f} / {theirs[x] / MEGABYTE:,.0f}" for x in FIGURES]
    cells += [f"{x:.2f}" for x in ratios(ours, theirs)]
    return f"| {name} | {' | '.join(cells)} |"


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(log(x) for x in values) / len(values))


HEAD: Final = (
    "| session | arrays | highest | deleted | cleared "
    "| highest, ratio | deleted | cleared | highest, grown | deleted | cleared |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def main() -> None:
    """Print the table, or put it into a page."""
    # The sessions need JAX, and this process does not.
    text = (HERE / "resident_sessions.py").read_text()
    known = [x[4 : x.index("(")] for x in text.splitlines() if x.startswith("def ") and x[4] != "_"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", nargs="*", metavar="SESSION")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    wanted = options.sessions or known
    if unknown := sorted(set(wanted) - set(known)):
        parser.error(f"no session {unknown[0]!r}: there are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as empty:
        report(wanted, options.cache or Path(empty), options.write)


def report(wanted: Sequence[str], cache: Path, page: Path | None) -> None:
    """Measure sessions; print their rows, or put them into a page."""
    answer("", "lowtide", cache)
    print(HEAD)
    lines, all_, bases = [HEAD], [], []
    for name in wanted:
        ours, theirs = (answer(name, x, cache) for x in ("lowtide", "cpu"))
        bases.append((ours["base"], theirs["base"]))
        all_.append(ratios(ours, theirs))
        lines.append(row(name, ours, theirs))
        print(lines[-1], flush=True)
    columns = list(zip(*all_, strict=True))
    cells = " | ".join([f"{mean(x):.2f}" for x in columns])
    lines.append(f"| geometric mean | | | | | {cells} |")
    cells = " | ".join([f"{max(x):.2f}" for x in columns])
    lines.append(f"| largest | | | | | {cells} |")
    print("\n".join(lines[-2:]))
    ours_base, theirs_base = ([x[side] for x in bases] for side in (0, 1))
    base = (
        f"\nAfter `import jax; jax.devices()`: {sum(ours_base) / len(bases) / MEGABYTE:,.0f} MB, "
        f"XLA:CPU {sum(theirs_base) / len(bases) / MEGABYTE:,.0f} MB."
    )
    print(base)
    if page is not None:
        replace_section(page, "resident", "\n".join([*lines, base]))


if __name__ == "__main__":
    main()
