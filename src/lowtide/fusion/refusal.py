"""The reasons why two instructions, or two kernels, are not one kernel."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from lowtide.ir import Instruction


class RefusalKind(Enum):
    """What stands in the way, as a sentence without a full stop.

    `{found}` is what there would be and `{limit}` the most that is taken; `{by}` is another
    instruction that stands in the way.
    """

    # One instruction is a kernel by itself.
    ORDERED = "control edges order it among other instructions"
    TUPLE = "it makes or reads {by}, which is no single array"
    DYNAMIC = "it makes or reads {by}, whose size is known at run time only"
    LAYOUT = "it makes or reads {by}, which is not in row-major order"
    OPAQUE = "{found} always is a kernel, a call or a loop of its own"

    # A value is not computed where it is read.
    OVERWRITTEN = "{by} overwrites it in place, so that it has to be stored"
    MEMBERS = "one kernel would have {found:,} instructions, of at most {limit:,}"
    ARRAYS = "one kernel would read and write {found:,} arrays, of at most {limit:,}"
    PACKING = "{by} reads it while it packs an operand, which cannot be done with {found}"
    BRANCHES = "a concatenation of {found:,} operands is computed where it is read up to {limit:,}"
    READS_TARGET = "{by} would read elements of its target that it has overwritten already"
    PIECES = "a value would be written as code {found:,} times in one kernel, of at most {limit:,}"
    NOT_A_LOOP = "{by} would follow a {found} in one kernel, and only elementwise work can"
    OTHER_SPACE = "{by} does not run over the elements that a {found} makes, each once"
    OTHER_ROWS = "{by} does not read its result along the rows that it is made of"
    LONG_ROWS = "a row of {found:,} B is read again, of at most {limit:,} B that stay in the cache"
    UPDATE = "an update in place ends its kernel"
    TARGET = "the target has no kernel of this kind"

    # It could be, and is not.
    NEEDED = "{by} needs it stored"
    MANY_READERS = "{found:,} kernels read it, and a reduction or product is not computed again"
    ANOTHER_READER = "it would be stored all the same, for {by}"
    GROWTH = "{found:,} instructions would be written once more, and {limit:,} are left"
    SLOWER = "to compute it where it is read takes {found:.2g} s longer than to store it"
    LIVES = "what it is made of would live until {by}, which takes more memory than its value"
    STORED = "its value is stored since the peak is lower then"
    NOT_READ = "neither reads what the other one makes"
    COMPUTATIONS = "it is in another computation than what is in {found}"
    FAR = "{by} lies between the two"

    # Kernels side by side, which keep all results.
    LOOPS = "their loops run over other elements"
    ELSEWHERE = "{by} is not read at the point where it is made"
    SHARED_TARGET = "one of them overwrites {by}, which the other one reads"
    NOTHING_SHARED = "they read nothing in common that is worth it"
    LITTLE_SHARED = "{found:.1%} of their time would be saved, and {limit:.0%} is the least"
    CYCLE = "another kernel has to run after the one and before the other"
    DISTANT = "{found:,} kernels lie between the two, of at most {limit:,}"
    RAISING = "in the order that kernels would have then, more would live at the peak"
    PEAK = "{found:,} B would live at once, of at most {limit:,}"
    LONGER = "what they read and make would live longer than what is saved is worth"
    IN_PLACE = "a result could not overwrite its argument any more"


class FusionRefusal(NamedTuple):
    """A kind of reason with what was found, the limit, and the instruction in the way."""

    kind: RefusalKind
    found: float | str = 0
    limit: float = 0
    by: Instruction | None = None

    def text(self) -> str:
        """Return the reason as one sentence without a full stop."""
        by = "the result" if self.by is None else self.by.name
        return self.kind.value.format(found=self.found, limit=self.limit, by=by)
