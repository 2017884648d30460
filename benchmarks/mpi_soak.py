"""Ranks of MPI that train for a while, one of which is killed at random: all end, none hangs.

    pip install mpi4py mpich
    python benchmarks/mpi_soak.py [--minutes 10] [--ranks 8] [--mpiexec PATH]

Each round starts ranks that repeat one program, in which they exchange values, and compare what it
gives with the first time bit by bit. After a number of steps drawn at random the parent kills a
rank drawn at random, by SIGKILL or SIGTERM, or the rank raises an error in the middle of a program.
A round is right if all processes are gone within a minute, the status is not 0, no result was
wrong, an error that was raised is told, and the resident set of no rank rose by more than 4 MB
after its first hundred steps. Exit status 1 else.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from time import monotonic, sleep
from typing import Any, Final

from lowtide.records import dataclass

END_SECONDS: Final = 60.0
ROUND_SECONDS: Final = 600.0
SLACK: Final = 4_000_000
WARM_STEPS: Final = 100
ENDS: Final = ("SIGKILL", "SIGTERM", "error")

_SAID: Final = re.compile(r"<(\d+) (\w+) (-?\d+)>")

STEP: Final = """HloModule step, num_partitions=DEVICES
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[DEVICES,96] parameter(0), sharding={devices=[DEVICES,1]<=[DEVICES]}
  w = f32[96,96] parameter(1), sharding={replicated}
  h = f32[DEVICES,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[DEVICES,96] tanh(h)
  g = f32[96,96] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  s = f32[96] reduce(g, zero), dimensions={0}, to_apply=add
  b = f32[96,96] broadcast(s), dimensions={1}
  ROOT n = f32[96,96] subtract(g, b)
}
"""


@dataclass(frozen=True, slots=True)
class Round:
    """How the ranks of a round are to end: what, which rank, and after how many of its steps."""

    end: str
    rank: int
    steps: int


# -- a rank ----------------------------------------------------------------------------------------


def resident() -> int:
    """Return the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def say(rank: int, what: str, value: int) -> None:
    """Tell the parent something; mpiexec may join the lines of ranks."""
    print(f"<{rank} {what} {value}>", flush=True)


def run_rank(number: int, steps: int) -> None:
    """Repeat the program for ever; rank `number` raises an error after so many steps."""
    import numpy as np
    from mpi4py import MPI

    import lowtide
    from lowtide.runtime.mpi import rendezvous

    world = MPI.COMM_WORLD
    rank, count = world.Get_rank(), world.Get_size()
    say(rank, "pid", os.getpid())
    module = lowtide.parse_hlo(STEP.replace("DEVICES", str(count)))
    program = lowtide.compile_for_ranks(module)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=x.shape.dimensions) for x in module.entry.parameters]
    own = [np.ascontiguousarray(x) for x in program.tiles(*[x.astype("f4") for x in arrays])]
    first = np.asarray(program(*own)).tobytes()
    base = at = 0
    begin: Any = rendezvous.begin

    def failing(*given: Any) -> Any:
        if rank == number and 0 < steps <= at:
            raise ValueError("soaked enough")
        return begin(*given)

    rendezvous.begin = failing
    while True:
        at += 1
        if np.asarray(program(*own)).tobytes() != first:
            say(rank, "wrong", at)
        if at == WARM_STEPS:
            base = resident()
        if at % WARM_STEPS == 0:
            say(rank, "rise", resident() - base)


# -- the parent ------------------------------------------------------------------------------------


def run_round(command: Sequence[str], ranks: int, plan: Round) -> tuple[int, list[str]]:
    """Return the steps of the rank that ended the round, and what was not right."""
    raised = plan.steps if plan.end == "error" else 0
    # mpi4py ends all ranks where the script of one raises.
    given = ["-n", str(ranks), sys.executable, "-m", "mpi4py", __file__]
    given += ["--rank", str(plan.rank), str(raised)]
    process = subprocess.Popen(
        [*command, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    late = Timer(ROUND_SECONDS, process.kill)
    late.start()
    pids: dict[int, int] = {}
    rises: list[int] = []
    wrong: list[str] = []
    steps = 0
    for rank, what, value in said(process):
        if what == "pid":
            pids[rank] = value
        elif what == "wrong":
            wrong.append(f"rank {rank} is wrong at {value}")
        else:
            rises.append(value)
            steps += WARM_STEPS * (rank == plan.rank)
        if plan.end != "error" and len(pids) == ranks and steps >= plan.steps:
            os.kill(pids[plan.rank], getattr(signal, plan.end))
            break
    if plan.end != "error" and steps < plan.steps:
        wrong.append("the ranks ended before")
    wrong += ended(process, list(pids.values()), plan)
    if not late.is_alive():
        wrong.append("the round does not end")
    late.cancel()
    if max(rises, default=0) > SLACK:
        wrong.append(f"a rank rose by {max(rises) / 1e6:.1f} MB")
    return steps, wrong


def said(process: subprocess.Popen[str]) -> Iterator[tuple[int, str, int]]:
    """Yield what ranks tell: rank, what, and a value."""
    assert process.stdout is not None
    for line in process.stdout:
        for rank, what, value in _SAID.findall(line):
            yield int(rank), what, int(value)


def ended(process: subprocess.Popen[str], pids: Sequence[int], plan: Round) -> list[str]:
    """Return what is not right in how the ranks of a round ended."""
    try:
        _, errors = process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        for pid in pids:
            if is_there(pid):
                os.kill(pid, signal.SIGKILL)
        return ["mpiexec hangs"]
    wrong = [] if process.returncode else ["the status is 0"]
    until = monotonic() + END_SECONDS
    while any(is_there(pid) for pid in pids):
        if monotonic() > until:
            return [*wrong, "a rank is still there"]
        sleep(0.05)
    if plan.end == "error" and "ValueError: soaked enough" not in errors:
        wrong.append(f"the error is not told: {errors[-200:]!r}")
    return wrong


def is_there(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to look does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def main() -> None:
    """Run rounds for so long; print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).with_name("mpiexec")))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rank", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        run_rank(*given.rank)
        return
    rng = random.Random(given.seed)
    until = monotonic() + 60 * given.minutes
    bad = rounds = total = 0
    while monotonic() < until:
        plan = Round(ENDS[rounds % len(ENDS)], rng.randrange(given.ranks), 100 * rng.randint(1, 3))
        steps, wrong = run_round([given.mpiexec], given.ranks, plan)
        rounds, total, bad = rounds + 1, total + steps, bad + bool(wrong)
        found = "; ".join(wrong) or "right"
        print(f"{plan.end} on rank {plan.rank} after {steps}: {found}", flush=True)
    print(f"{rounds} rounds, {total} steps of the rank that ended, {bad} not right")
    sys.exit(bool(bad or not rounds))


if __name__ == "__main__":
    main()
