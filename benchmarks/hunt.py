"""Hunt for modules on which the evaluator, XLA:CPU and native code do not agree.

  python benchmarks/hunt.py --state FOLDER [--hours 3]
  python benchmarks/hunt.py --state FOLDER --report docs/validation.md

Modules are drawn by what has been covered least, judged in a process of their own, and made small
where judges differ. FOLDER keeps what has run and been found; the same command goes on from there.
`--report` only writes what FOLDER holds into a section of a document.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lowtide.testing.hunting.hunt import Hunt
from lowtide.testing.hunting.state import HuntState
from lowtide.testing.hunting.summary import summary
from sections import replace_section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    state = HuntState.opened(options.state)
    if options.report is not None:
        replace_section(options.report, "hunt", summary(state))
        return
    Hunt(state, lambda line: print(line, flush=True)).run(3600 * options.hours)
    found = sum(state.findings.values())
    print(f"{state.modules} modules, {state.seconds / 3600:.2f} hours, {found} findings")


if __name__ == "__main__":
    main()
