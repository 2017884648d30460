"""Notes on loops: how often they run, as XLA's backends write and read them."""

from __future__ import annotations

from typing import Any, Final

from lowtide.analysis.loop_trip_count import TripCount, trip_count
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.backend_config import read_config, write_config
from lowtide.passes.interface import Pass, example


def annotate_trip_counts(module: Module) -> int:
    """Write `known_trip_count` into the backend config of loops; return for how many.

    Where there is an induction variable, its start and step and its place in the tuple are written
    too. A count that is there already stays.
    """
    return sum(
        [
            _annotate(x)
            for computation in module.computations.values()
            for x in computation.instructions.values()
            if x.opcode is Opcode.WHILE
        ]
    )


def _annotate(loop: Instruction) -> bool:
    config = read_config(loop)
    if config is None or "known_trip_count" in config:
        return False
    found = trip_count(loop)
    if found is None:
        return False
    write_config(loop, {**config, **_facts(found)})
    return True


def _facts(found: TripCount) -> dict[str, Any]:
    facts = {"known_trip_count": {"n": str(found.count)}}
    if found.induction is not None:
        facts["known_init_step"] = {"init": str(found.start), "step": str(found.step)}
        facts["known_induction_variable"] = {"tuple_index": str(found.induction)}
    return facts


PASSES: Final = (
    Pass(
        "while-trip-count",
        annotate_trip_counts,
        "Writes down how often loops run, where that is known.",
        *example(
            """
HloModule m

condition {
  c = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  b = (s32[], f32[4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  y = f32[4] sine(x)
  ROOT r = (s32[], f32[4]) tuple(next, y)
}

ENTRY main {
  x.1 = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, x.1)
- ROOT loop = (s32[], f32[4]) while(start), condition=condition, body=body
+ ROOT loop = (s32[], f32[4]) while(start), condition=condition, body=body, \
backend_config={"known_trip_count":{"n":"3"},"known_init_step":{"init":"0","step":"1"},\
"known_induction_variable":{"tuple_index":"0"}}
}
"""
        ),
    ),
)
