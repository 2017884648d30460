"""A picture of a packing: time from left to right, memory from bottom to top.

offset ^  +-----------+
       |  |     b     |   a rectangle for each stretch of time in which a buffer is live
       |  +----+------+---+
       |  | a  |    c     |
       +--+----+----------+--> steps
"""

from __future__ import annotations

import colorsys
import re
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class PackingPicture:
    """The rectangles of a picture, and the buffers that they belong to.

    Row `i` of `item`, `first`, `last` says that buffer `item[i]` is live at the steps from
    `first[i]` to `last[i]`, both included. Per buffer there are a name, an offset, a size, and
    perhaps `details`, a line of text. The arena is `height` bytes high; no offsets need less than
    `bound`. `profile` are steps, ascending, and the bytes live from each to the next one. `remarks`
    are sentences on what is not in the picture.
    """

    title: str
    names: tuple[str, ...]
    details: tuple[str, ...]
    offset: Int64Array
    nbytes: Int64Array
    item: Int64Array
    first: Int64Array
    last: Int64Array
    height: int
    bound: int
    profile: tuple[Int64Array, Int64Array]
    remarks: tuple[str, ...] = ()

    @property
    def start(self) -> int:
        """The first step."""
        return int(self.first.min()) if len(self.first) else 0

    @property
    def stop(self) -> int:
        """The step after the last one."""
        return int(self.last.max()) + 1 if len(self.last) else 1

    @property
    def summary(self) -> str:
        """What the packing takes, and what is proved."""
        proof = "no offsets need less"
        if self.height > self.bound:
            proof = f"no offsets need less than {self.bound:,}"
        return f"{len(self.names):,} buffers in {self.height:,} bytes; {proof}"

    def hover(self, row: int) -> str:
        """What is said about a rectangle, in lines."""
        buffer = int(self.item[row])
        size, offset = int(self.nbytes[buffer]), int(self.offset[buffer])
        lines = [
            self.names[buffer],
            f"{size:,} bytes at {offset:,}",
            f"live at steps {int(self.first[row]):,} to {int(self.last[row]):,}",
        ]
        if self.details and self.details[buffer]:
            lines.append(self.details[buffer])
        return "\n".join(lines)


def live_steps(
    nbytes: Int64Array, first: Int64Array, last: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the profile of rectangles: steps, ascending, and the bytes live from each on."""
    steps, place = np.unique(np.concatenate([first, last + 1]), return_inverse=True)
    change = np.zeros(len(steps), np.int64)
    np.add.at(change, place.reshape(-1), np.concatenate([nbytes, -nbytes]))
    return steps, np.cumsum(change)


def coarse_profile(picture: PackingPicture, most: int) -> tuple[Int64Array, Int64Array]:
    """Return the profile with at most `most` steps: of those that lie close, the most bytes."""
    steps, live = picture.profile
    if len(steps) <= most:
        return steps, live
    span = float(picture.stop - picture.start)
    part = np.floor((steps - picture.start) / span * (most // 2 - 1)).astype(np.int64)
    begin = np.flatnonzero(np.diff(part, prepend=-1))
    end = np.append(begin[1:], len(steps)) - 1
    highest = np.maximum.reduceat(np.maximum(live, np.append(0, live[:-1])), begin)
    return (
        np.column_stack([steps[begin], steps[end]]).reshape(-1),
        np.column_stack([highest, live[end]]).reshape(-1),
    )


def largest_rows(picture: PackingPicture, limit: int) -> tuple[Int64Array, str]:
    """Return the rows of the largest rectangles, ascending, and a sentence on those left out.

    Rectangles without area are never drawn.
    """
    size = picture.nbytes[picture.item].astype(np.float64)
    area = (picture.last - picture.first + 1) * size
    rows = np.flatnonzero(area > 0)
    empty = len(area) - len(rows)
    said = [f"{empty:,} without bytes are not drawn."] if empty else []
    if len(rows) > limit:
        order = np.lexsort((rows, -area[rows]))
        said.append(f"{len(rows) - limit:,} of {len(rows):,} rectangles, the smallest, left out.")
        rows = np.sort(rows[order[:limit]])
    return rows, " ".join(said)


# -- colours -----------------------------------------------------------------------------------

_NUMBERS: Final = re.compile(r"[\d\W_]+")
_HUES_APART: Final = 97
"""Degrees between the hues of neighbouring powers of two."""

_SHADES: Final = ((0.58, 0.62), (0.50, 0.72), (0.66, 0.55))


def colour_classes(picture: PackingPicture) -> tuple[list[str], list[int]]:
    """Return colours, as `#rrggbb`, and which of them each buffer has.

    Buffers whose names differ in numbers only have one colour; those whose names are nothing but
    numbers have one by the power of two below their size. A class has the same colour everywhere.
    """
    colours: dict[str, int] = {}
    of_class: dict[str, int] = {}
    found = []
    for name, size in zip(picture.names, picture.nbytes.tolist(), strict=True):
        word = _NUMBERS.sub(" ", name).strip()
        if not word:
            word = f"2^{size.bit_length()}"
        if word not in of_class:
            seed = _HUES_APART * size.bit_length() if word.startswith("2^") else _seed(word)
            of_class[word] = colours.setdefault(_colour(seed), len(colours))
        found.append(of_class[word])
    return list(colours), found


def _seed(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _colour(seed: int) -> str:
    saturation, lightness = _SHADES[seed // 360 % len(_SHADES)]
    parts = colorsys.hls_to_rgb(seed % 360 / 360, lightness, saturation)
    return "#" + "".join([f"{round(255 * x):02x}" for x in parts])


# -- axes --------------------------------------------------------------------------------------


def ticks(start: int, stop: int, most: int) -> list[int]:
    """Return up to `most` round numbers from `start` to `stop`, both included."""
    step = 1
    while (stop - start) // step >= most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(-(-start // step) * step, stop + 1, step))
