"""The LLVM IR of the kernels of a program, for people to read."""

from __future__ import annotations

from lowtide.client.executable.anew import PlannedProgram
from lowtide.codegen.cpu.kernels import Kernels
from lowtide.codegen.program import thunks_of
from lowtide.ir import Instruction


def kernel_texts(compiled: PlannedProgram) -> list[tuple[str, str]]:
    """Return the name and the module in LLVM IR of each distinct kernel of a program.

    The name is that of the first instruction that it runs for. The texts are written anew: equal
    plans give equal code.
    """
    program, plan = compiled.program, compiled.plan
    assert plan.module.schedule is not None
    kernels = Kernels(program.target, program.threads)
    names: dict[int, str] = {}

    def number(instruction: Instruction) -> int:
        found = kernels.number(instruction)
        names.setdefault(found, instruction.name)
        return found

    ways = number, kernels.host_call, kernels.collective
    thunks_of(plan.assignment, plan.module.schedule.sequences, *ways)
    written = kernels.write()
    texts: dict[str, str] = {}
    for place, entry in enumerate(written.entries):
        symbols = [f"@{x.function}(" for x in entry.phases[:1]]
        for text in written.texts:
            if any(x in text for x in symbols):
                texts.setdefault(text, names[place])
    return [(name, text) for text, name in texts.items()]
