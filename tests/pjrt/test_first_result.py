"""Counts of what a first result takes, in a process of its own: they do not depend on the clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

COUNTING = """
import json, sys
from lowtide.llvm.machine import KernelCompiler
from lowtide.passes import Pass
from lowtide.records import record

counts = {"modules for LLVM": 0, "passes": 0, "methods": 0}

def count(home, name, what):
    counted = getattr(home, name)
    def call(*given, **named):
        counts[what] += 1
        return counted(*given, **named)
    setattr(home, name, call)

count(KernelCompiler, "_compiled", "modules for LLVM")
count(Pass, "run", "passes")
count(record, "_compiled", "methods")

def told():
    loaded = [x for x in sys.modules if x.split(".")[0] == "lowtide"]
    rooms = sorted({x.split(".")[1] for x in loaded if "." in x})
    return {**counts, "loaded": sorted(loaded), "rooms": rooms, "others": sorted(sys.modules)}
"""

FIRST_PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np

found = []
jax.devices()
found.append(told())
f = jax.jit(lambda x: jnp.tanh(x @ x.T + 1).sum(0) * 2 - 3)
np.asarray(f(np.ones((8, 8), np.float32)))
found.append(told())
jnp.sin(np.ones(7, np.float32)).block_until_ready()
found.append(told())
jnp.sin(np.ones(9, np.float32)).block_until_ready()
found.append(told())
print(json.dumps(found))
"""

TEN = """
import numpy as np
import lowtide

text = '''HloModule ten
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  product = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = f32[] constant(1)
  ones = f32[64,64] broadcast(one), dimensions={}
  more = f32[64,64] add(product, ones)
  bent = f32[64,64] tanh(more)
  turned = f32[64,64] transpose(bent), dimensions={1,0}
  back = f32[64,64] multiply(turned, y)
  ROOT last = f32[64,64] subtract(back, x)
}'''
lowtide.compile(lowtide.parse_hlo(text))(*np.ones((2, 64, 64), np.float32))
print(json.dumps([told()]))
"""

NEVER = {"cli", "comparison", "inspection", "testing", "tuning", "remat", "whatif", "xla", "micro"}
"""Rooms that no first result needs."""

COMPILING = {"compiler", "transforms", "fusion", "scheduling", "buffers", "planning", "codegen"}
"""Rooms that only a compilation needs."""


def run(script: str, cache: Path) -> list[dict[str, Any]]:
    """Return what a script counts in a new process with an empty cache."""
    environment = {**os.environ, "JAX_PLATFORMS": "lowtide", "LOWTIDE_CACHE": str(cache)}
    command = [sys.executable, "-c", COUNTING + script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_first_program_of_jax(tmp_path: Path) -> None:
    started, first, eager, again = run(FIRST_PROGRAM, tmp_path)
    names = set(started["loaded"])
    assert "spmd" not in started["rooms"]
    assert not {x for x in names if x.startswith("lowtide.frontend.hlo_text")}
    assert not {x for x in names if x.startswith("lowtide.transforms.simplify.")}
    assert "lowtide.client.jit.jitted" not in names
    assert len(names) <= 172
    assert started["modules for LLVM"] == 0  # Its data plane is shipped.
    assert first["modules for LLVM"] - started["modules for LLVM"] <= 1  # A bundle.
    assert not NEVER & set(first["rooms"])
    assert not {x for x in first["loaded"] if x.startswith("lowtide.frontend.hlo_text")}
    assert len(first["loaded"]) <= 561
    assert first["passes"] <= 18
    assert first["methods"] <= 16
    assert not {"typer", "rich", "onnx", "ortools"} & set(first["others"])
    # The kernel, far angles of a vector, and those of a double; then a vector of another length.
    assert eager["modules for LLVM"] - first["modules for LLVM"] == 3
    assert again["modules for LLVM"] - eager["modules for LLVM"] <= 2
    assert set(again["loaded"]) == set(eager["loaded"])


def test_ten_instructions(tmp_path: Path) -> None:
    (found,) = run(TEN, tmp_path)
    assert not (NEVER | {"spmd", "pjrt"}) & set(found["rooms"])
    others = {"jax", "typer", "rich", "onnx", "ortools", "ml_dtypes", "difflib"}
    assert not others & set(found["others"])
    assert len(found["loaded"]) <= 459
    assert found["modules for LLVM"] == 1  # A bundle.
    assert found["passes"] <= 18
    assert found["methods"] <= 10


def test_nothing_is_compiled_with_a_full_cache(tmp_path: Path) -> None:
    for script, most in ((FIRST_PROGRAM, 172), (TEN, 168)):
        run(script, tmp_path)
        *_, last = run(script, tmp_path)
        assert (last["modules for LLVM"], last["passes"]) == (0, 0)
        assert not {"llvmlite", "llvmlite.binding"} & set(last["others"])
        assert not COMPILING & set(last["rooms"])
        assert len(last["loaded"]) <= most
        assert script == TEN or not {"frontend", "ops"} & set(last["rooms"])  # No module is read.
