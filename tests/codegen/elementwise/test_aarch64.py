"""Every operation can be made for another processor."""

import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import kernel

from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64


@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_aarch64_objects_are_made_without_functions_from_outside(type_):
    cases = oracle.cases(type_)
    functions = [kernel(f"k{i}", case, AARCH64, 4) for i, case in enumerate(cases)]
    assembly = KernelCompiler(AARCH64).assembly(module_text(functions))
    lines = [x.strip() for x in assembly.splitlines()]
    defined = {x.partition(":")[0] for x in lines}
    called = {x.removeprefix("bl\t") for x in lines if x.startswith("bl\t")}
    assert called - defined == set()
