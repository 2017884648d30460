"""Every template makes code for AArch64, and states its scratch in multiples of 64 bytes."""

import pytest

from lowtide.codegen.cpu.select import kernel_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, host_target

COMPUTATIONS = """
HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] sine(a)
  ROOT d = pred[] compare(c, b), direction=LT
}
"""

ROOTS = {
    "sort": "f32[3,200] sort(x), dimensions={1}, to_apply=less",
    "short": "f32[3,200] sort(x), dimensions={0}, to_apply=less",
    "merge": "f32[3,200] sort(x), dimensions={1}, to_apply=odd",
    "topk": "(f32[3,5], s32[3,5]) topk(x), k=5, largest=true",
    "scatter": "f32[3,200] scatter(x, i, x), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "fft": "c64[3,101] fft(x), fft_type=RFFT, fft_length={200}",
    "prime": "c64[3,20] fft(y), fft_type=IFFT, fft_length={3,20}",
    "cholesky": "f32[4,4] cholesky(s), lower=true",
    "solve": "f32[4,9] triangular-solve(s, t), left_side=true, lower=true, "
    "unit_diagonal=false, transpose_a=NO_TRANSPOSE",
    "threefry": "(u64[2], u32[5,7]) rng-bit-generator(k), algorithm=rng_three_fry",
    "philox": "(u64[2], u8[35]) rng-bit-generator(k), algorithm=rng_philox",
    "collective": "f32[3,200] all-reduce(x), replica_groups={}, to_apply=add",
}


@pytest.mark.parametrize("name", ROOTS)
def test_code_for_aarch64(name):
    text = f"""{COMPUTATIONS}
ENTRY main {{
  x = f32[3,200] parameter(0)
  y = c64[3,20] parameter(1)
  i = s32[3,1] parameter(2)
  s = f32[4,4] parameter(3)
  t = f32[4,9] parameter(4)
  k = u64[2] parameter(5)
  ROOT r = {ROOTS[name]}
}}
"""
    root = parse_hlo(text).entry.root
    for target in (AARCH64, host_target()):
        plan = kernel_plan(root, target)
        assert plan.shared_bytes % 64 == 0
        assert plan.thread_bytes % 64 == 0
        code = plan.emit()
        assert code.phases
        assert {x.function for x in code.phases} <= {x.name for x in code.functions}
        assert all(x.units > 0 and x.unit_seconds > 0 for x in code.phases)
        assert KernelCompiler(target).object_code(module_text(code.functions, code.globals))
