"""Hunt for cases on which the evaluator, native code and what others compute do not agree.

  python benchmarks/hunt.py --state FOLDER --family NAME [--hours 3]
  python benchmarks/hunt.py --state FOLDER --again
  python benchmarks/hunt.py --state FOLDER --report docs/validation.md

Cases of a family are drawn by what has been covered least, judged in a process of their own, and
made small where judges differ. FOLDER keeps what has run and been found, a folder for each family;
the same command goes on from there. A case follows from its seed and from what was covered before
it: an empty FOLDER that begins with another `--seed` has cases that no hunt had. Without `--family`
the families take turns of `--turn` minutes. `--again` judges what was found on the code as it is
now, and notes what has an end. `--report`
writes what FOLDER holds into sections of a document.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from sections import replace_section

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hunting.again import judge_again
from tests.hunting.family import NAMES
from tests.hunting.hunt import Hunt
from tests.hunting.state import HuntState
from tests.hunting.summary import summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--family", choices=NAMES)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0, help="the first of a FOLDER that is empty")
    parser.add_argument("--turn", type=float, default=5.0, help="minutes of a family's turn")
    parser.add_argument("--again", action="store_true", help="judge anew what was found")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    names = NAMES if options.family is None else (options.family,)
    if options.again:
        for name in names:
            judge_again(name, HuntState.opened(options.state / name), partial(print, name))
        return
    if options.report is not None:
        for name in names:
            state = HuntState.opened(options.state / name)
            replace_section(options.report, f"hunt {name}", summary(name, state))
        return
    until = time.monotonic() + 3600 * options.hours
    turn = 3600 * options.hours if options.family else 60 * options.turn
    while time.monotonic() < until:
        for name in names:
            seconds = min(turn, until - time.monotonic())
            if seconds > 0:
                _hunt(name, HuntState.opened(options.state / name, options.seed), seconds)


def _hunt(name: str, state: HuntState, seconds: float) -> None:
    Hunt(name, state, lambda line: print(name, line, flush=True)).run(seconds)
    found = sum(state.findings.values())
    print(f"{name}: {state.cases} cases, {state.seconds / 3600:.2f} hours, {found} findings")


if __name__ == "__main__":
    main()
