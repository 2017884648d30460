import sys

import numpy as np
import pytest
from benchmarks.jax_programs import MEMORY_SCHEDULER, jax_programs

from lowtide.evaluator import evaluate

FILE = """
import argparse
import numpy as np
AP = argparse.ArgumentParser()
AP.add_argument("--scale")
AP.add_argument("--list", action="store_true")
A = AP.parse_args()
class R:
    def __init__(self, name): self.name = name
def step(r):
    size = {"small": 4, "medium": 8}[A.scale]
    return lambda p, x: {k: v + x for k, v in p.items()}, ({"b": np.ones(size), "a": 2.0}, 3.0)
PROGS = {"step": dict(make=step, x64=True, donate=(0,))}
if A.list:
    raise SystemExit
raise AssertionError("this part is not run")
"""


def test_programs_are_lowered_and_compiled(tmp_path):
    pytest.importorskip("jax")
    path = tmp_path / "programs.py"
    path.write_text(FILE)
    command = list(sys.argv)
    (program,) = jax_programs(path, "medium")
    assert sys.argv == command
    assert [x.shape for x in program.arguments()] == [(), (8,), ()]
    for module in (program.module(), program.compiled(MEMORY_SCHEDULER).module()):
        first, second = evaluate(module, program.arguments())
        assert (first, second.dtype) == (5.0, np.float64)
        assert second.tolist() == [4.0] * 8
    compiled = program.compiled()
    assert compiled.module().is_scheduled
    assert compiled.temp_bytes >= 0
    assert compiled.serialized_plan
