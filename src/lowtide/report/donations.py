"""Verdicts on the donations that a module asks for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from lowtide.analysis.colocation import WishKind
from lowtide.analysis.donation import AskedDonation, asked_donations
from lowtide.ir import Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.attributes import GetTupleElement
from lowtide.records import dataclass
from lowtide.report.blame import user_frame
from lowtide.report.copies import NeededCopy
from lowtide.report.schema import Json


class DonationVerdict(StrEnum):
    """The outcomes that a donation can have."""

    IN_PLACE = "in place"
    """The output is computed where the argument lies."""
    COPIED = "copied"
    """The output ends up there, by a copy."""
    NO_EFFECT = "no effect"
    """No output overwrites the argument."""


@dataclass(frozen=True, slots=True)
class DonationOutcome:
    """What became of one donation that the module asks for, and unless it is in place, why."""

    asked: AskedDonation
    verdict: DonationVerdict
    reason: str

    @property
    def name(self) -> str:
        """What the program calls the argument."""
        return self.asked.instruction.metadata.op_name or self.asked.instruction.name

    def to_json(self) -> Json:
        """Return the entry of the schema's `donations_asked`."""
        output = self.asked.output
        return {
            "parameter": self.asked.parameter,
            "index": list(self.asked.index),
            "name": self.name,
            "bytes": self.asked.nbytes,
            "output": None if output is None else list(output),
            "verdict": self.verdict.value,
            "reason": self.reason,
        }


def donation_outcomes(module: Module, copies: Iterable[NeededCopy]) -> tuple[DonationOutcome, ...]:
    """Return what became of the module's alias table and donated buffers, in this order.

    `copies` are those that were put into the module.
    """
    reasons = {x.copy: x.reason.text() for x in copies if x.reason.kind is WishKind.ALIAS}
    return tuple([_outcome(module, asked, reasons) for asked in asked_donations(module)])


def _outcome(
    module: Module, asked: AskedDonation, reasons: dict[Instruction, str]
) -> DonationOutcome:
    if asked.pair is None or asked.output is None:
        reason = asked.reason + _made_at(module, asked)
        return DonationOutcome(asked, DonationVerdict.NO_EFFECT, reason)
    reason = reasons.get(_maker(module.entry.root, asked.output)[0], "")
    return DonationOutcome(
        asked, DonationVerdict.COPIED if reason else DonationVerdict.IN_PLACE, reason
    )


def _made_at(module: Module, asked: AskedDonation) -> str:
    """Where the output is made that would overwrite the argument, were it of its type."""
    if asked.nearest is None:
        return ""
    kernel, index = _maker(module.entry.root, asked.nearest)
    makers = [kernel]
    if kernel.opcode is Opcode.FUSION:
        makers.insert(0, _maker(kernel.called_computations[0].root, index)[0])
    source = next((y for y in [user_frame(x.stack) for x in makers] if y is not None), None)
    if source is None:
        return ""
    from lowtide.report.peak_table import place_text  # Most reports say nothing of places.

    return f", made at {place_text(source)}"


def _maker(instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
    """The instruction that makes an element, seen through tuples and their elements.

    The index is that of the element within its result.
    """
    while True:
        if instruction.opcode is Opcode.TUPLE and index:
            instruction, index = instruction.operands[index[0]], index[1:]
        elif instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
            index = (instruction.attributes_as(GetTupleElement).index, *index)
            instruction = instruction.operands[0]
        else:
            return instruction, index


def argument_name(name: str) -> str:
    """Return the argument of the user's function that a leaf such as `state.params['w']` is in."""
    for i, character in enumerate(name):
        if character in "[." and i:
            return name[:i]
    return name
