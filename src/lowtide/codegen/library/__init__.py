"""Kernels of the operations that work on whole arrays: sorting, scattering, transforms, solving."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.codegen.kernel import Plan
from lowtide.codegen.library.scatter import plan_scatter
from lowtide.codegen.library.sort import plan_sort
from lowtide.codegen.library.topk import plan_topk
from lowtide.codegen.library.updates import plan_update
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target

TEMPLATES: Final[Mapping[Opcode, tuple[Callable[[Instruction, Target], Plan | None], ...]]] = {
    Opcode.FUSION: (plan_update,),
    Opcode.SCATTER: (plan_scatter,),
    Opcode.SORT: (plan_sort,),
    Opcode.TOPK: (plan_topk,),
}
"""By opcode the templates of this folder."""
