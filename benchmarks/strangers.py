"""Files of strangers: every reader beside mutated files, guided by the lines that they reach.

    nice -n 15 python benchmarks/strangers.py --state FOLDER [--minutes 10] [--reader NAME ...]

Of each reader's file some bytes, or fields of messages, are changed, and the reader is asked. A
change that reaches a line of the readers which none reached before is kept and changed further.
What breaks the law is written to FOLDER, once for each place: an exception that is not lowtide's,
an input that takes more than 10 s of the processor, a file opened outside of the input's folder,
more memory than a constant times the size of the input, and the death of the process: each reader
runs in one of its own, which has 8 GiB of addresses. The last table printed is the one of
docs/trust.md.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.strangers.hunt import ASKED, Hunt
from tests.strangers.readers import READERS

ADDRESS_BYTES: Final = 8 << 30
MOST_DEATHS: Final = 20


def main() -> None:
    """Hunt in each of the readers for so long."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the processor, a reader")
    parser.add_argument("--reader", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        hunted(arguments.reader[0], arguments.state, arguments.seed, arguments.child)
        return
    rows = [
        "| reader | inputs | read | refused | lines reached | finds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in arguments.reader:
        state = arguments.state / name.replace(" ", "-")
        rows.append(watched(name, state, arguments.seed, 60 * arguments.minutes))
        print(rows[-1], file=sys.stderr, flush=True)
    print("\n".join(rows))


def hunted(name: str, state: Path, seed: int, seconds: float) -> None:
    """Hunt in this process, and write what was found to `state`."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    hunt = Hunt(name, state, random.Random(seed))
    try:
        hunt.run(seconds=seconds)
    finally:
        print(json.dumps([*hunt.counts.values(), len(hunt.lines), len(hunt.finds)]), flush=True)


def watched(name: str, state: Path, seed: int, seconds: float) -> str:
    """Return the row of a reader that is hunted in a process; each death of one is a find."""
    total = [0, 0, 0, 0, 0]
    for deaths in range(MOST_DEATHS):
        begin = _seconds_of_children()
        command = [sys.executable, "-X", "faulthandler", __file__, "--state", str(state)]
        command += ["--reader", name, "--seed", str(seed + deaths), "--child", str(seconds)]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        seconds -= _seconds_of_children() - begin
        if child.returncode == 0:
            total = _added(total, json.loads(child.stdout))
            break
        _keep_death(name, state, deaths, child.returncode)
        total[-1] += 1
        if seconds < 1:
            break
    return f"| {name} | " + " | ".join([f"{x:,}" for x in total]) + " |"


def _keep_death(name: str, state: Path, number: int, status: int) -> None:
    """Keep the input that a process died of."""
    file = state / f"death-{number}.bin"
    (state / ASKED).replace(file)
    print(f"{name}: ended with {status}: {file}", file=sys.stderr, flush=True)


def _added(total: list[int], found: list[Any]) -> list[int]:
    return [a + b for a, b in zip(total, found, strict=True)]


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
