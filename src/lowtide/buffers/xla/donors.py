"""Donated arguments as aliases, which is all that XLA's assigners know."""

from __future__ import annotations

from lowtide.analysis.donation import aliases
from lowtide.ir import Module, ShapeIndex
from lowtide.ir.module import InputOutputAlias


def tie_donors(module: Module) -> bool:
    """Tie each donated argument to the output that is to overwrite it, in the alias table.

    The pairs are those of `analysis.donation.aliases`; donors without an output of their size stay
    as they are. Returns whether there were any.
    """
    parameters = [
        (number, index)
        for number, parameter in enumerate(module.entry.parameters)
        for index, _ in parameter.shape.leaves()
    ]
    outputs: list[ShapeIndex] = [index for index, _ in module.entry.root.shape.leaves()]
    known = {(x.parameter, x.parameter_index) for x in module.input_output_aliases}
    added = tuple(
        [
            InputOutputAlias(outputs[pair.output], *parameters[pair.parameter])
            for pair in aliases(module)
            if parameters[pair.parameter] not in known
        ]
    )
    tied = known | {(x.parameter, x.parameter_index) for x in added}
    module.input_output_aliases += added
    module.buffer_donors = tuple(
        [x for x in module.buffer_donors if (x.parameter, x.parameter_index) not in tied]
    )
    return bool(added)
