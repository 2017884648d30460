"""Files of strangers: every reader beside mutated files, guided by the lines that they reach.

    nice -n 15 python benchmarks/strangers.py --state FOLDER [--minutes 10] [--reader NAME ...]

Of each reader's file some bytes are changed, and the reader is asked. A change that reaches a line
of the readers which none reached before is kept and changed further. What breaks the law is
written to FOLDER, once for each place: an exception that is not lowtide's, an input that takes
more than 10 s of the processor, a file opened outside of the input's folder, and more memory than
a constant times the size of the input. The last table printed is the one of docs/trust.md.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.strangers.hunt import Hunt
from tests.strangers.readers import READERS


def main() -> None:
    """Hunt in each of the readers for so long."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the processor, a reader")
    parser.add_argument("--reader", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = [
        "| reader | inputs | read | refused | lines reached | finds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in arguments.reader:
        hunt = Hunt(name, arguments.state / name.replace(" ", "-"), random.Random(arguments.seed))
        hunt.run(seconds=60 * arguments.minutes)
        rows.append(hunt.row())
        print(rows[-1], file=sys.stderr, flush=True)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
