"""Programs with shardings on ranks: whole arrays, several calls, failures seen from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.runtime.mpi.launching import needs_mpi, run_command, run_script, started
from tests.runtime.mpi.programs import training_step, transformer_block

import lowtide
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.evaluator.values import value_leaves
from lowtide.transforms.sharding_removal import remove_shardings

pytestmark = needs_mpi

PROGRAMS = {"a step of training": training_step, "a block of a transformer": transformer_block}


def whole_results(text: str, arguments: list[np.ndarray]) -> list[np.ndarray]:
    module = lowtide.parse_hlo(text)
    module.num_partitions = 1
    remove_shardings(module)
    return [np.asarray(x) for x in value_leaves(lowtide.evaluate(module, arguments))]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_ranks_compute_what_the_whole_module_does(name: str, ranks: int, tmp_path: Path) -> None:
    text = PROGRAMS[name](ranks)
    path, given, found = (tmp_path / x for x in ("m.hlo", "given.npz", "found.npz"))
    path.write_text(text)
    rng = np.random.default_rng(0)
    shapes = [x.shape.dimensions for x in parameter_leaves(lowtide.parse_hlo(text))]
    arguments = [rng.normal(0, 0.3, x).astype(np.float32) for x in shapes]
    np.savez(given, **{f"in_{i}": x for i, x in enumerate(arguments)})
    ended = run_command(ranks, path, "--inputs", str(given), "--outputs", str(found))
    assert ended.status == 0, ended.stderr
    wanted = whole_results(text, arguments)
    with np.load(found) as arrays:
        assert len(arrays.files) == len(wanted)
        for i, x in enumerate(wanted):
            np.testing.assert_allclose(arrays[f"out_{i}"], x, rtol=2e-5, atol=2e-5)


def test_the_screen_is_that_of_devices_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(training_step(2))
    alone = started(1, "-m", "lowtide", "run", str(path))
    ranks = run_command(2, path)
    assert alone.status == ranks.status == 0
    assert alone.output.splitlines()[1:] == ranks.output.splitlines()[1:]
    assert "on 2 ranks" in ranks.output
    assert ranks.output.count("output") == alone.output.count("output")


CALLS = """
import sys
import numpy as np
import lowtide
from mpi4py import MPI
from tests.runtime.mpi.programs import training_step

world = MPI.COMM_WORLD
module = lowtide.parse_hlo(training_step(2))
program = lowtide.compile_for_ranks(module, comm=world)
again = lowtide.compile_for_ranks(module)
assert again.world is program.world
rng = np.random.default_rng(0)
x, y = rng.normal(size=(2, 16, 12)).astype(np.float32)
w, v = [rng.normal(0, 0.1, x).astype(np.float32) for x in ((12, 20), (20, 12))]
own = program.tiles(x, y, w, v)
assert own[0].shape == (8, 12) and own[2].shape == (12, 20)
losses = []
for step in range(200):
    state = own if step == 0 else [*own[:2], new_w, new_v]
    new_w, new_v, loss = program(*state)
    losses.append(float(loss))
assert losses[-1] < losses[0]
everywhere = program.whole((new_w, new_v, loss))
np.testing.assert_array_equal(everywhere[0], new_w)
first = program.whole((new_w, new_v, loss), 0)
assert (first is None) == (world.Get_rank() == 1)
bits = world.gather(new_w.tobytes())
if world.Get_rank() == 0:
    assert bits[0] == bits[1]
    print("all", len(losses))
"""


def test_calls_from_python(tmp_path: Path) -> None:
    found = run_script(2, tmp_path, CALLS)
    assert found.status == 0, found.stderr
    assert found.output == "all 200\n"


RAISES = """
import os
import numpy as np
import lowtide
from lowtide.runtime.mpi import collectives
from tests.runtime.mpi.programs import training_step

program = lowtide.compile_for_ranks(lowtide.parse_hlo(training_step(2)))
own = program.tiles(*[np.ones(x, np.float32) for x in ((16, 12), (16, 12), (12, 20), (20, 12))])
if program.rank == 1:
    def combine(*given):
        raise ValueError("no room")
    collectives.combine = combine
for _ in range(3):
    try:
        program(*own)
    except Exception as error:
        line = f"{program.rank} {type(error).__name__} {str(error)[:25]}" + chr(10)
        os.write(1, line.encode())  # In one piece, so that no other rank's is within.
"""


def test_failures_are_raised_on_all_ranks_and_stay(tmp_path: Path) -> None:
    """The other rank may have all that it needs of the first run before this one fails."""
    found = run_script(2, tmp_path, RAISES)
    lines = [x[:30] for x in found.output.splitlines()]
    assert lines.count("0 RendezvousError rank 1 faile") in (2, 3)
    assert lines.count("1 RendezvousError rank 1 faile") == 2
    assert lines.count("1 ValueError no room") == 1
    assert len(lines) in (5, 6)
