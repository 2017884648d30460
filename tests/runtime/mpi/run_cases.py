"""Child of `test_collectives`: runs all cases on its rank, and writes the results of each.

python run_cases.py FOLDER [BYTES]: pieces and segments of messages of so many bytes.
"""

import json
import sys
from pathlib import Path

import numpy as np
from tests.runtime.devices.judging import arguments_of
from tests.runtime.mpi.cases import cases

import lowtide
from lowtide.evaluator.values import value_leaves
from lowtide.ir.literal import storable
from lowtide.runtime.mpi import collectives, link


def main() -> None:
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        link.PIECE_BYTES = collectives.SEGMENT_BYTES = collectives.SMALL_BYTES = int(sys.argv[2])
    found: dict[str, np.ndarray] = {}
    counts = {}
    rank = None
    for name, text in cases().items():
        module = lowtide.parse_hlo(text)
        program = lowtide.compile_for_ranks(module, timeout_seconds=60)
        rank = program.rank
        leaves = value_leaves(program(*arguments_of(module)[rank]))
        counts[name] = len(leaves)
        found |= {f"{name}/{i}": storable(np.asarray(x)) for i, x in enumerate(leaves)}
    np.savez(folder / f"{rank}.npz", **found)
    (folder / f"{rank}.json").write_text(json.dumps(counts))


main()
