"""Integers cut from wider ones, then compared: no target ends the process that compiles."""

from __future__ import annotations

import subprocess
import sys

from lowtide.llvm.named_targets import NAMED_TARGETS

SCRIPT = """
from itertools import product
from lowtide.codegen.elementwise.number import Number
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.named_targets import NAMED_TARGETS

COMPARED = (lambda a, b: a < b, lambda a, b: a.equals(b), lambda a, b: a.compare("ult", b))
SHIFTED = (Number.ashr, Number.__rshift__)

PAIRS = ((64, 32), (64, 16), (64, 8), (32, 16), (32, 8), (16, 8))

def loaded(f, target, bits, lanes, name):
    return Number(f, target, f"i{bits}", lanes, f.load(f"<{lanes} x i{bits}>", name, bits // 8))

for name, target in NAMED_TARGETS.items():
    functions = []
    cases = product(PAIRS, (2, 4, 8, 16, 32), COMPARED, SHIFTED)
    for number, ((wide, narrow), lanes, compared, shifted) in enumerate(cases):
        f = Function(f"f{number}", parameters(a="ptr", b="ptr", out="ptr"))
        given = [loaded(f, target, wide, lanes, x) for x in ("%a", "%b")]
        moved = [shifted(x, wide + 1 - narrow + i) for i, x in enumerate(given)]
        bits = compared(*[x.cast("trunc", f"i{narrow}") for x in moved]).cast("zext", "i8")
        f.store(bits.type, bits.name, "%out", 1)
        f.do("ret void")
        functions.append(f)
    KernelCompiler(target).object_code(module_text(functions))
    print(name, len(functions))
"""


def test_narrowed_integers_are_compared_on_all_targets() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [x.split()[0] for x in lines] == list(NAMED_TARGETS), done.stdout
    assert {x.split()[-1] for x in lines} == {"180"}, done.stdout
