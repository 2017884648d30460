"""Calls from many Python threads for a long time: every result right, no memory lost.

    python benchmarks/soak.py [--minutes 10] [--callers 8] [--threads 2]

Each caller draws one of several programs and one of its argument sets, calls it, and compares all
results bit by bit with those of the first call. Some callers keep results for a while, so that
their memory returns late. Twelve times the callers end, and the resident set is noted when kept
memory is given back; after the first quarter it may rise by 2% and 4 MB. Exit status 1 for a wrong
result or a rise.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from lowtide.client.executable import Executable, compile_module
from lowtide.evaluator import value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options
from lowtide.testing.check_pass import seeded_arguments
from native_memory import settled

ROUNDS: Final = 12
SHARE: Final = 0.02
SLACK: Final = 4_000_000

PRODUCT: Final = """HloModule product
ENTRY e {
  a = f32[300,257] parameter(0)
  b = f32[257,190] parameter(1)
  d = f32[300,190] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[300,190] tanh(d)
}
"""

LARGE: Final = """HloModule large, input_output_alias={ {0}: (0, {}, may-alias) }
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  a = f32[700,1000] parameter(0)
  e = f32[700,1000] exponential(a)
  zero = f32[] constant(0)
  r = f32[700] reduce(e, zero), dimensions={1}, to_apply=add
  b = f32[700,1000] broadcast(r), dimensions={0}
  s = f32[700,1000] divide(e, b)
  ROOT t = (f32[700,1000], f32[700]) tuple(s, r)
}
"""

LOOP: Final = """HloModule loop
condition {
  t = (s32[], f32[40,40]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  t = (s32[], f32[40,40]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[40,40] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[40,40] tanh(d)
  ROOT r = (s32[], f32[40,40]) tuple(j, y)
}
ENTRY e {
  x = f32[40,40] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[40,40]) tuple(zero, x)
  w = (s32[], f32[40,40]) while(t), condition=condition, body=body
  ROOT r = f32[40,40] get-tuple-element(w), index=1
}
"""

TINY: Final = """HloModule tiny
ENTRY e { a = s32[3] parameter(0)  ROOT b = s32[3] add(a, a) }
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A program, arguments, and what it computes of them."""

    executable: Executable
    arguments: Sequence[Any]
    expected: Sequence[bytes]

    def run(self, consume: bool) -> tuple[Any, bool]:
        """Return the results of a call, and whether they are right."""
        given = [np.array(x) for x in self.arguments] if consume else self.arguments
        results = self.executable(*given, consume=consume)
        return results, contents(results) == self.expected


def contents(results: Any) -> list[bytes]:
    """Return the bytes of all arrays of a result."""
    return [np.ascontiguousarray(x).tobytes() for x in value_leaves(results)]


def cases(threads: int) -> list[Case]:
    """Return programs with several sets of arguments each."""
    found = []
    for text in (PRODUCT, LARGE, LOOP, TINY):
        module = parse_hlo(text)
        executable = compile_module(module, Options(threads=threads, cache=False))
        for seed in range(3):
            arguments = seeded_arguments(module, seed)
            expected = contents(executable(*arguments))
            found.append(Case(executable, arguments, expected))
    return found


@dataclass(slots=True)
class Tally:
    """What all callers have done."""

    calls: int = 0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    stop: Event = field(default_factory=Event)

    def add(self, calls: int, wrong: int) -> None:
        """Count."""
        with self.lock:
            self.calls += calls
            self.wrong += wrong


def caller(number: int, known: Sequence[Case], tally: Tally) -> None:
    """Call until told to stop."""
    random = np.random.default_rng(number)
    held: deque[Any] = deque(maxlen=1 + number % 3)
    calls = wrong = 0
    try:
        while not tally.stop.is_set():
            case = known[int(random.integers(len(known)))]
            results, is_right = case.run(consume=bool(random.integers(2)))
            held.append(results)
            calls += 1
            wrong += not is_right
    except Exception as error:  # a thread must not end in silence: the tally makes it a failure
        tally.errors.append(f"{type(error).__name__}: {error}")
    tally.add(calls, wrong)


def quiet(known: Sequence[Case]) -> int:
    """Return the resident set when kept memory is given back."""
    for case in known:
        case.executable.release_memory()
    return settled()


def main() -> None:
    """Run the callers; print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    known, tally = cases(given.threads), Tally()
    start = monotonic()
    samples = []
    for number in range(ROUNDS):
        tally.stop.clear()
        seeds = range(number * given.callers, (number + 1) * given.callers)
        callers = [Thread(target=caller, args=(x, known, tally)) for x in seeds]
        for x in callers:
            x.start()
        sleep(given.minutes * 60 / ROUNDS)
        tally.stop.set()
        for x in callers:
            x.join()
        samples.append(quiet(known))
    base, last = max(samples[: ROUNDS // 4]), max(samples[-ROUNDS // 4 :])
    leaks = last > base * (1 + SHARE) + SLACK
    megabytes = " ".join([f"{x / 1e6:.1f}" for x in samples])
    print(f"{tally.calls} calls in {monotonic() - start:.0f} s, {tally.wrong} wrong")
    print(f"resident, MB: {megabytes}{'  RISES' if leaks else ''}")
    for error in tally.errors:
        print(error)
    sys.exit(bool(tally.wrong or tally.errors or leaks or not tally.calls))


if __name__ == "__main__":
    main()
