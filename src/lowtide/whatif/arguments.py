"""Arguments in another form: with the host until they are read, or in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Final

from lowtide import compiler
from lowtide.analysis.donation import aliases, possible_donations
from lowtide.compiler import ModulePlan
from lowtide.ir import ElementType, Instruction, Module, Opcode, Shape
from lowtide.ir.shape import HOST_MEMORY
from lowtide.report.donations import argument_name
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange
from lowtide.whatif.editing import read_instead, replace_output, set_parameter_shape

_MOST: Final = 4
_LEAST_SHARE: Final = 50
"""An argument is tried where it takes more than one part in so many of all memory."""
_SMALL: Final = 1 << 12
"""Arrays of fewer bytes stay as they are."""

Form = Callable[[Shape], Shape | None]
"""The form that an argument of a shape takes, None where it stays as it is."""


def argument_changes(base: Baseline) -> list[ProgramChange]:
    """Return the changes of form of the largest arguments; none where the order was given."""
    if base.has_given_order:
        return []
    size: dict[str, int] = {}
    floating: set[str] = set()
    mixed: set[str] = set()
    for parameter in base.module.entry.parameters:
        name = _argument(parameter)
        size[name] = size.get(name, 0) + parameter.shape.leaf_nbytes
        if _narrow(parameter.shape) is not None:
            floating.add(name)
        if parameter.shape.is_array and parameter.shape.element_type is not ElementType.F32:
            mixed.add(name)
    total = base.report.total_bytes
    names = sorted(size, key=lambda name: (-size[name], name))
    large = [name for name in names if size[name] * _LEAST_SHARE > total][:_MOST]
    updated = {_argument(x) for x in _updates(base.module) if _narrow(x.shape) is not None}
    narrow = [
        _bf16(base, x, is_mixed=x in mixed, is_updated=x in updated) for x in large if x in floating
    ]
    return [*[_offload(base, name) for name in large], *narrow]


def _argument(parameter: Instruction) -> str:
    return argument_name(parameter.metadata.op_name or parameter.name)


def _offload(base: Baseline, name: str) -> ProgramChange:
    return ProgramChange(
        f"offload:{name}",
        f"keep {name} in the host's memory, copied when it is read",
        f"jax.device_put({name}, {name}_sharding.with_memory_kind('pinned_host'))",
        base.function.source,
        partial(_planned, name=name, form=_on_host, opcode=Opcode.COPY),
        remark="time of a copy in memory",
    )


def _bf16(base: Baseline, name: str, *, is_mixed: bool, is_updated: bool) -> ProgramChange:
    """The change of an argument's f32; where it has other arrays, such as counts, they stay.

    Of what a step updates the new value is narrow too: it is the argument of the next step.
    """
    narrow = "x.astype(jnp.bfloat16)"
    then = "  # back where it is read" + (", its new value too" if is_updated else "")
    which = base.function.decorator.arrays or ("x.dtype == jnp.float32" if is_mixed else "")
    if which:
        narrow += f" if {which} else x"
    return ProgramChange(
        f"bf16:{name}",
        f"keep {name} as bfloat16",
        f"{name} = jax.tree.map(lambda x: {narrow}, {name}){then}",
        base.function.source,
        partial(_planned, name=name, form=_narrow, opcode=Opcode.CONVERT),
        remark="results change",
        written=partial(_written, name=name, form=_narrow, opcode=Opcode.CONVERT),
    )


def _on_host(shape: Shape) -> Shape | None:
    if not shape.is_array or shape.nbytes < _SMALL or shape.memory_space:
        return None
    return shape.with_memory_space(HOST_MEMORY)


def _narrow(shape: Shape) -> Shape | None:
    if shape.element_type is not ElementType.F32 or shape.nbytes < _SMALL:
        return None
    return shape.with_element_type(ElementType.BF16)


def _planned(base: Baseline, name: str, form: Form, opcode: Opcode) -> ModulePlan:
    module = base.copy()
    _change(module, name, form, opcode, {x.name for x in base.late})
    return base.planned(module)


def _written(base: Baseline, name: str, form: Form, opcode: Opcode) -> ModulePlan:
    module = base.as_given()
    _change(module, name, form, opcode, set())
    return compiler.plan(module, base.options)


def _change(module: Module, name: str, form: Form, opcode: Opcode, late: Set[str]) -> None:
    """Give the arrays of an argument another form; readers of the names in `late` read late."""
    changed = 0
    updates = _updates(module) if form is _narrow else _overwritten(module)
    for parameter in list(module.entry.parameters):
        shape = form(parameter.shape)
        if shape is not None and _argument(parameter) == name:
            if parameter in updates:
                _change_output(module, updates[parameter], shape, opcode)
            _change_parameter(module, parameter, shape, opcode, late)
            changed += 1
    if not changed:
        raise ImpossibleChangeError(f"{name} has no array of that kind")


def _overwritten(module: Module) -> dict[Instruction, int]:
    """The array of the result that overwrites each parameter that one does, by its number."""
    owners = [x for x in module.entry.parameters for _ in x.shape.leaves()]
    return {owners[x.parameter]: x.output for x in aliases(module)}


def _updates(module: Module) -> dict[Instruction, int]:
    """The array of the result that overwrites each parameter, or that would if it were donated.

    Of an argument that is not donated that is so where it is a tree of arrays, each of which a
    result may overwrite: one array may well have the shape of a result that is not its next value.
    """
    known = _overwritten(module)
    if not (module.entry.root.shape.is_array or module.entry.root.opcode is Opcode.TUPLE):
        return known
    possible = {x.parameter: x.output for x in possible_donations(module, aliases(module))}
    arrays: dict[str, list[Instruction]] = {}
    for parameter in module.entry.parameters:
        arrays.setdefault(_argument(parameter), []).append(parameter)
    trees = [x for name, x in arrays.items() if x[0].metadata.op_name != name]
    whole = [x for x in trees if possible.keys() >= set(x)]
    return {**{y: possible[y] for x in whole for y in x}, **known}


def _change_output(module: Module, number: int, shape: Shape, opcode: Opcode) -> None:
    """Bring an array of the result to the new form of the parameter that it is in place of."""
    root = module.entry.root
    if root.shape.is_tuple and root.opcode is not Opcode.TUPLE:
        raise ImpossibleChangeError("the results are made in one piece")
    made = root.operands[number] if root.shape.is_tuple else root
    replace_output(module, number, module.entry.add(opcode, shape, (made,)))


def _change_parameter(
    module: Module, parameter: Instruction, shape: Shape, opcode: Opcode, late: Set[str]
) -> None:
    """Have readers of a parameter read it in its old form; late readers have one of their own."""
    before = parameter.shape
    groups = list(_readers(parameter, late))
    was_root = module.entry.root is parameter
    set_parameter_shape(parameter, shape)
    for readers in groups:
        made = module.entry.add(opcode, before, (parameter,))
        made.set_metadata(parameter.raw_metadata)
        read_instead(parameter, made, readers)
    if was_root:
        module.entry.root = module.entry.add(opcode, before, (parameter,))


def _readers(parameter: Instruction, late: Set[str]) -> Iterator[list[Instruction]]:
    """Yield the readers of a parameter that run early, and those that run late."""
    for is_late in (False, True):
        found = [x for x in parameter.users if (x.name in late) is is_late]
        if found:
            yield found
