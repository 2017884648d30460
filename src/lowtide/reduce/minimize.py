"""From a module that shows a fault to a few lines that still show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from lowtide.analysis.call_graph import executed_computations
from lowtide.compiler.stages import STAGES, pipeline
from lowtide.ir import Instruction, LowtideError, Module, Opcode
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import Constant, Dimensions, Parameter
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.literal import zero_literal
from lowtide.ir.metadata import NO_METADATA, StackFrames
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.shape import array_shape
from lowtide.ir.traversal import post_order
from lowtide.passes import Step
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.registry import parse_passes
from lowtide.passes.rewriting import rewrite
from lowtide.reduce.shrink.faults import Fault, find_fault, first_fault, shows
from lowtide.transforms.inline_calls import inline_calls
from lowtide.verifier import verify

Fails = Callable[[Module], bool]
"""Whether a module, which it must not change, shows the fault."""

_MOST_ROUNDS: Final = 20


def minimize(module: Module, fails: Fails) -> Module:
    """Return a smaller module for which `fails` holds, as it must for `module`.

    Bodies become entries, calls are inlined, results dropped; instructions become arguments, zeros
    or one of their operands, as long as the fault shows: the delta debugging of Zeller and
    Hildebrandt ("Simplifying and Isolating Failure-Inducing Input", 2002). The number of calls of
    `fails` is about the number of instructions times its logarithm. Schedules, aliases, hints and
    source lines go first where they may. Raises
    ValueError unless `fails` holds at the start.
    """
    if not fails(module):
        raise ValueError("the module does not show the fault")
    best = _bare(module, fails)
    for _ in range(_MOST_ROUNDS):
        size = _size(best)
        best = _with_other_entry(best, fails)
        best = _inlined(best, fails)
        best = _with_fewer_results(best, fails)
        for edit in (_to_argument, _to_operand, _to_zero):
            best = _with_edits(best, edit, fails)
        if _size(best) >= size:
            break
    return best


def as_test(module: Module, name: str, passes: str = "") -> str:
    """Return the source of a test that runs the module of a fault.

    It is complete where the fault is that `passes`, a list of passes or a stage, change what is
    computed; else what it asserts is `check`, which is to be written.
    """
    lines = ["", f"def test_{name}() -> None:", "    module = lowtide.parse_hlo(", '        """']
    lines += [f"{' ' * 8}{line}".rstrip() for line in to_text(module, COMPLETE).strip().split("\n")]
    lines += ['        """', "    )"]
    if not passes:
        return "\n".join([*lines, "    check(module)", ""])
    imports = [
        "import lowtide",
        "from lowtide.reduce.minimize import steps_of",
        "from lowtide.reduce.shrink.faults import Fault, find_fault",
        "",
    ]
    check = f"    fault, words = find_fault(module, steps_of({passes!r}))"
    return "\n".join([*imports, *lines, check, "    assert fault is Fault.NONE, words", ""])


def _size(module: Module) -> tuple[int, int]:
    instructions = _instructions(module)
    constants = [x for x in instructions if x.opcode is Opcode.CONSTANT]
    return len(instructions), -len(constants)


def _first_that_fails(candidates: Sequence[Module], fails: Fails) -> Module | None:
    """The first candidate that is a module and shows the fault."""
    for candidate in candidates:
        try:
            verify(candidate)
        except LowtideError:
            continue
        if fails(candidate):
            return candidate
    return None


def _bare(module: Module, fails: Fails) -> Module:
    """The module without what it can do without: schedule, aliases, hints, source lines."""
    for strip in _STRIPS:
        copy = clone_module(module)
        strip(copy)
        module = _first_that_fails([_tidy(copy)], fails) or module
    return clone_module(module)


def _strip_buffers(module: Module) -> None:
    module.schedule = None
    module.input_output_aliases = ()
    module.buffer_donors = ()


def _strip_header(module: Module) -> None:
    module.allow_spmd_sharding_propagation_to_output = ()
    module.output_sharding = None
    module.frontend_attributes = ()


def _strip_partitions(module: Module) -> None:
    module.num_partitions = 1


def _strip_order(module: Module) -> None:
    for x in _instructions(module):
        x.drop_control_predecessors(x.control_predecessors)


def _strip_hints(module: Module) -> None:
    for x in _instructions(module):
        x.set_annotations(NO_ANNOTATIONS)


def _strip_source(module: Module) -> None:
    module.stack_frames = StackFrames()
    for x in _instructions(module):
        x.set_metadata(NO_METADATA)


_STRIPS: Final = (
    _strip_buffers,
    _strip_header,
    _strip_partitions,
    _strip_order,
    _strip_hints,
    _strip_source,
)


def _instructions(module: Module) -> list[Instruction]:
    return [x for c in module.computations.values() for x in c.instructions.values()]


def _tidy(module: Module) -> Module:
    """Remove what nobody reads, arguments too, and let the header say what is left."""
    rewrite(module, [])
    remove_dead_code(module)
    entry = module.entry
    if not module.input_output_aliases and not module.buffer_donors:
        for parameter in [p for p in entry.parameters if not p.users and not p.is_root]:
            entry.remove(parameter)
        for number, parameter in enumerate(entry.parameters):
            parameter.set_attributes(Parameter(number))
    module.entry_layout = None
    module.parameter_shardings = ()
    module.allow_spmd_sharding_propagation_to_parameters = ()
    return module


def _with_other_entry(module: Module, fails: Fails) -> Module:
    """Return a module that starts with what the entry runs: a body, a branch, a callee."""
    candidates = []
    for computation in executed_computations(module.entry):
        if computation.is_entry:
            continue
        mapping = CloneMap()
        copy = clone_module(module, mapping)
        copy.input_output_aliases = ()
        copy.buffer_donors = ()
        copy.entry = mapping.computations[computation]
        copy.entry_layout = None
        candidates.append(_tidy(copy))
    candidates.sort(key=lambda x: x.instruction_count)
    return _first_that_fails(candidates, fails) or module


def _inlined(module: Module, fails: Fails) -> Module:
    """Return the module without calls, if that shows the fault too."""
    copy = clone_module(module)
    if not inline_calls(copy):
        return module
    return _first_that_fails([_tidy(copy)], fails) or module


def _with_fewer_results(module: Module, fails: Fails) -> Module:
    """Return the module with one of its results, or with what a result is made of."""
    for _ in range(module.instruction_count):
        candidates = []
        for number in range(len(module.entry.root.operands)):
            mapping = CloneMap()
            copy = clone_module(module, mapping)
            if copy.input_output_aliases:
                return module
            root = mapping.instructions[module.entry.root.operands[number]]
            copy.entry.root = root
            candidates.append(_tidy(copy))
        smaller = _first_that_fails(candidates, fails)
        if smaller is None:
            return module
        module = smaller
    return module


Edit = Callable[[Instruction], Instruction | None]
"""Returns what an instruction is to be replaced by, None where the edit does not apply."""


def _with_edits(module: Module, edit: Edit, fails: Fails) -> Module:
    """Apply an edit to as many instructions as the fault allows: halves, then quarters, ..."""
    names = [x.name for c in module.computations.values() for x in reversed(post_order(c))]
    width = len(names)
    while width:
        start = 0
        while start < len(names):
            chunk = names[start : start + width]
            edited = _edited(module, chunk, edit)
            if edited is not None and _first_that_fails([edited], fails):
                module = edited
                del names[start : start + width]
            else:
                start += width
        width //= 2
    return module


def _edited(module: Module, names: Sequence[str], edit: Edit) -> Module | None:
    """The module with an edit applied to all of these instructions, None where none applies."""
    copy = clone_module(module)
    by_name = {x.name: x for c in copy.computations.values() for x in c.instructions.values()}
    applied = False
    for name in names:
        instruction = by_name.get(name)
        if instruction is None:
            continue
        replacement = edit(instruction)
        if replacement is not None:
            replacement.set_metadata(instruction.raw_metadata)
            instruction.replace_all_uses_with(replacement)
            applied = True
    return _tidy(copy) if applied else None


def _to_argument(x: Instruction) -> Instruction | None:
    if not x.parent.is_entry or not x.operands:
        return None
    number = Parameter(len(x.parent.parameters))
    return x.parent.add(Opcode.PARAMETER, x.shape, (), number, name="p")


def _to_operand(x: Instruction) -> Instruction | None:
    same = [operand for operand in x.operands if operand.shape is x.shape]
    return same[0] if same else None


def _to_zero(x: Instruction) -> Instruction | None:
    if not x.shape.is_array or x.shape.dynamic or x.opcode in (Opcode.PARAMETER, Opcode.CONSTANT):
        return None
    if x.opcode is Opcode.BROADCAST and x.operands[0].opcode is Opcode.CONSTANT:
        return None
    scalar = array_shape(x.shape.element_type, ())
    zero = x.parent.add(Opcode.CONSTANT, scalar, (), Constant(zero_literal(scalar)))
    if not x.shape.rank:
        return zero
    return x.parent.add(Opcode.BROADCAST, x.shape, (zero,), Dimensions(()))


def failing_test(module: Module, passes: str) -> str:
    """Return the source of a test with the least module on which passes are wrong as on this one.

    `passes` is a list of passes or a stage, of which only the first wrong one stays, if it is so by
    itself. Raises LowtideError where they do nothing wrong.
    """
    steps = steps_of(passes)
    fault, words = find_fault(module, steps)
    if fault is Fault.NONE:
        raise LowtideError(f"{module.name}: {fault}")
    print(f"{fault}: {words}", file=sys.stderr)
    before, alone = first_fault(module, steps, fault)
    least = minimize(before, lambda x: shows(x, alone, fault))
    for text in (",".join(map(str, alone)), passes):
        if before is not module and shows(least, steps_of(text), fault):
            return as_test(least, fault.name.lower(), text)
    least = minimize(module, lambda x: shows(x, steps, fault))
    return as_test(least, fault.name.lower(), passes)


def steps_of(passes: str) -> Sequence[Step]:
    """Return the steps of a stage, or of a list of passes; raises LowtideError for neither."""
    return pipeline(passes) if passes in STAGES else parse_passes(passes)
