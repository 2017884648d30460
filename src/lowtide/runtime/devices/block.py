"""Words in memory of a meeting and of its exchanges, which machine code reads and writes."""

from __future__ import annotations

from typing import Final

LOCK: Final = 0
FAILED: Final = 8
COUNT: Final = 16
PATIENCE: Final = 24
WAITING: Final = 32
ENDED: Final = 40
SEATS: Final = 128
"""Offsets in the block of a meeting: its lock, why it failed (0: not), how many devices there are,
the nanoseconds that one waits for others, how many devices wait for others to come and how many
have ended, and the first seat."""

RELEASED: Final = 0
WORKSPACE: Final = 8
AT: Final = 16
PENDING: Final = 24
MEETING: Final = 32
NUMBER: Final = 40
WAS_AT: Final = 48
SEAT_BYTES: Final = 128
"""Offsets in the seat of a device, and its size: how far those that it met have let it go, its
buffers, the exchange at which it waits for others to come (0: none), how many devices of the group
have not done their part (that of the first one counts), the block of the meeting, the number of the
device, and the exchange at which it waited when the meeting failed."""

COME, DONE = 1, 2
"""How far a device is let go: all have come, or all have done what they share."""

BY_PYTHON, BY_TIME, BY_DEADLOCK = 1, 2, 3
"""Why a meeting failed: something else did, nobody came in time, or all wait for one another."""

AREA: Final = 0
SCRATCH: Final = 8
DIVIDED: Final = 16
DEVICES: Final = 24
DEVICE_BYTES: Final = 16
"""Offsets in the block of an exchange: the word of the workspace from which on there is room for
the buffers of a kernel, the word with the scratch, whether each device does its part (0: the last
one to come does all), then for each device the addresses of its group and of its runs. A group is
the number of its devices and these; runs are their number, and for each one a function, the first
of its units and the end, the number of its buffers, and these: a device (-1: none) and the word of
its workspace (else the address itself)."""
