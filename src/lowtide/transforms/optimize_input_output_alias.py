"""Donated arguments tied to the outputs that overwrite them."""

from __future__ import annotations

from lowtide.analysis.donation import AskedDonation, asked_donations
from lowtide.ir import Module
from lowtide.ir.module import BufferDonor, InputOutputAlias


def optimize_input_output_alias(module: Module) -> bool:
    """Turn each donated buffer for which there is an output into an entry of the alias table.

    The output has as many bytes in the same memory space, and no argument to overwrite before;
    shapes, layouts and element types may differ. The largest are paired first, equal ones in
    order. Donors of dynamic shape, and those for which no output is left, stay as they are.
    Returns whether there was any pair.
    """
    found = [x for x in asked_donations(module) if not x.is_tied and x.pair is not None]
    module.input_output_aliases += tuple([_entry(x) for x in found])
    tied = {BufferDonor(x.parameter, x.index) for x in found}
    module.buffer_donors = tuple([x for x in module.buffer_donors if x not in tied])
    return bool(found)


def _entry(donation: AskedDonation) -> InputOutputAlias:
    assert donation.output is not None
    return InputOutputAlias(donation.output, donation.parameter, donation.index)
