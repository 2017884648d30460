"""`...-live-range.txt`: the flat schedule, when each value is live, and the peak."""

from __future__ import annotations

from lowtide.ir.shape import index_text
from lowtide.xla.analysis.hlo_live_range import HloLiveRange
from lowtide.xla.analysis.hlo_value import HloValue


def live_range_text(ranges: HloLiveRange) -> str:
    """Return the times of instructions and the live ranges of values, as XLA dumps them.

    At the peak, the largest values come first. The breakdown of the peak by stack frames, which
    newer versions of XLA put behind, is left out.
    """
    lines = [f"HloLiveRange (max {ranges.end}):", "  InstructionSequence:"]
    lines += [f"    {t}:{x.name}" for t, x in enumerate(ranges.sequence.instructions)]
    lines.append("  BufferLiveRange:")
    lines += [f"    {_name(v)}:{x.start}-{x.end}" for v, x in ranges.ranges.items()]
    moment = ranges.peak_moment
    lines.append(f"  Live ranges at {moment} (peak):")
    total = 0
    for value in sorted(ranges.live_at(moment), key=lambda x: (-x.nbytes, _name(x))):
        total += value.nbytes
        lines.append(f"    {_name(value)}: {value.nbytes} bytes (cumulative: {total} bytes)")
    return "\n".join(lines) + "\n"


def _name(value: HloValue) -> str:
    return f"{value.instruction.name}{index_text(value.index)}"
