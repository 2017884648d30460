"""A test of a fault in native code: the instruction by itself, made as small as shows it."""

from __future__ import annotations

from lowtide.client.errors import SanitizerError
from lowtide.inspection.sanitizer import sanitize
from lowtide.ir import Instruction, LowtideError, Module, Opcode
from lowtide.ir.attributes import Parameter
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.metadata import NO_METADATA
from lowtide.options import Options
from lowtide.passes.dead_code import remove_dead_code
from lowtide.reduce.minimize import as_test, minimize
from lowtide.reduce.shrink import shrink
from lowtide.reduce.shrink.arguments import likely_arguments

SEEDS = (0, 1, 2, 3)
"""Those of the arguments with which the fault is looked for."""


def reproducer(module: Module, name: str, threads: int) -> tuple[str, bool]:
    """Return the source of a test of the instruction `name` of a module, and whether it fails.

    With generated arguments its module is made smaller as long as native code is at fault. Where
    they do not show the fault, the instruction stands there as it is.
    """
    options = Options(stage="input", threads=threads)
    alone = single(module, name)
    seed = next((x for x in SEEDS if is_faulty(alone, options, x)), None)
    if seed is None:
        return _test(alone, name, options, SEEDS[0]), False
    small = _shrunk(alone)
    if small is not None and is_faulty(small, options, seed):
        alone = small
    least = minimize(alone, lambda x: is_faulty(x, options, seed))
    return _test(least, name, options, seed), True


def single(module: Module, name: str) -> Module:
    """Return a module of one instruction and what it calls; operands become parameters."""
    mapping = CloneMap()
    copy = clone_module(module, mapping)
    wanted = next(x for x in mapping.instructions if x.name == name)
    found = mapping.instructions[wanted]
    entry = copy.add_computation("alone")
    given: dict[Instruction, Instruction] = {}
    for operand in found.operands:
        if operand not in given:
            number = Parameter(len(given))
            given[operand] = entry.add(Opcode.PARAMETER, operand.shape, (), number, name="p")
    operands = tuple([given[x] for x in found.operands])
    entry.root = entry.add_like(found, operands)
    entry.root.set_metadata(NO_METADATA)
    copy.entry = entry
    copy.entry_layout = None
    copy.schedule = None
    copy.input_output_aliases = ()
    copy.buffer_donors = ()
    copy.parameter_shardings = ()
    remove_dead_code(copy)
    return copy


def is_faulty(module: Module, options: Options, seed: int) -> bool:
    """Whether the sanitizer finds a fault in a module; one that cannot be run has none."""
    try:
        sanitize(module, likely_arguments(module, seed), options)
    except SanitizerError:
        return True
    except Exception:  # A part of a program may be one that cannot be compiled at all.
        return False
    return False


def _shrunk(module: Module) -> Module | None:
    try:
        return shrink(module)
    except LowtideError:
        return None


def _test(module: Module, name: str, options: Options, seed: int) -> str:
    safe = "".join([x if x.isalnum() else "_" for x in name])
    imports = [
        "import lowtide",
        "from lowtide.inspection.sanitizer import sanitize",
        "from lowtide.reduce.shrink.arguments import likely_arguments",
        "",
    ]
    call = (
        f'    options = lowtide.Options(stage="input", threads={options.threads})\n'
        f"    sanitize(module, likely_arguments(module, {seed}), options)\n"
    )
    body = as_test(module, safe).replace("    check(module)\n", call)
    return "\n".join([*imports, body])
