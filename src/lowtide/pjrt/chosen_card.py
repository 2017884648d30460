"""The graphics processor that the environment chooses for the platform's device, if it does.

Where it does not, nothing of what such processors take is loaded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from lowtide.ir.gpu_names import is_gpu_target
from lowtide.options import options_text

if TYPE_CHECKING:
    from lowtide.pjrt.card import Card

_OPTION: Final = "target="

CARD_MARK: Final = b"lowtide module of a GPU 1\n"
"""What the bytes of a program of a card begin with; its module follows as protobuf."""


def card_target() -> str:
    """Return the graphics processor that the environment names as target, "" for none."""
    parts = ["".join(x.split()) for x in options_text().split(",")]
    names = [x.removeprefix(_OPTION) for x in parts if x.startswith(_OPTION)]
    return next((x for x in names if is_gpu_target(x)), "")


@cache
def card() -> Card | None:
    """Return the card that the device of this process is, None where that is the processor.

    Raises DriverError where the one that is asked for is not there.
    """
    target = card_target()
    if not target:
        return None
    from lowtide.pjrt.card import Card

    return Card(target)
