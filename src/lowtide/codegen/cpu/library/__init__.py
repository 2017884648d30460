"""Kernels of the operations that work on whole arrays: sorting, scattering, transforms, solving."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.cpu.library.cholesky import plan_cholesky
from lowtide.codegen.cpu.library.fft import plan_fft
from lowtide.codegen.cpu.library.host_call import plan_host_call
from lowtide.codegen.cpu.library.lapack import plan_lapack
from lowtide.codegen.cpu.library.passing import PASSING, plan_passing
from lowtide.codegen.cpu.library.ragged_exchange import plan_ragged_exchange
from lowtide.codegen.cpu.library.random_bits import plan_random_bits
from lowtide.codegen.cpu.library.scatter import plan_scatter
from lowtide.codegen.cpu.library.sort import plan_sort
from lowtide.codegen.cpu.library.topk import plan_topk
from lowtide.codegen.cpu.library.triangular_solve import plan_triangular_solve
from lowtide.codegen.cpu.library.updates import plan_moving_scatter, plan_update
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target

TEMPLATES: Final[
    Mapping[Opcode, tuple[Callable[[Instruction, Target], KernelPlan | None], ...]]
] = {
    **dict.fromkeys(PASSING, (plan_passing,)),
    Opcode.CHOLESKY: (plan_cholesky,),
    Opcode.CUSTOM_CALL: (plan_lapack, plan_host_call, plan_passing),
    Opcode.FFT: (plan_fft,),
    Opcode.FUSION: (plan_update,),
    Opcode.RAGGED_ALL_TO_ALL: (plan_ragged_exchange,),
    Opcode.RNG_BIT_GENERATOR: (plan_random_bits,),
    Opcode.SCATTER: (plan_moving_scatter, plan_scatter),
    Opcode.SORT: (plan_sort,),
    Opcode.TOPK: (plan_topk,),
    Opcode.TRIANGULAR_SOLVE: (plan_triangular_solve,),
}
"""By opcode the templates of this folder."""
