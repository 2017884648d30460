"""One run of a model by the package tflite-micro, in a process of its own.

It takes a path, how many inputs there are and the size of an arena, and writes the size of the
least arena that does; what lies in it goes to standard error. It ends with status 3 where the
package is not installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

MISSING: Final = 3
_STEP: Final = 16


def _interpreter(content: bytes, arena_bytes: int) -> Any:
    runtime = import_module("tflite_micro.python.tflite_micro.runtime")
    return runtime.Interpreter.from_bytes(content, arena_size=arena_bytes)


def _is_enough(content: bytes, arena_bytes: int) -> bool:
    try:
        _interpreter(content, arena_bytes)
    except RuntimeError:
        return False
    return True


def _least(content: bytes, most: int) -> int:
    """The least arena, in steps, that is enough for the model; `most` is."""
    low, high = 0, -(-most // _STEP)
    while low + 1 < high:
        middle = (low + high) // 2
        if _is_enough(content, middle * _STEP):
            high = middle
        else:
            low = middle
    return high * _STEP


def main() -> int:
    """Run the model on zeros."""
    if find_spec("tflite_micro") is None:
        return MISSING
    path, inputs, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(path, "rb") as stream:
        content = stream.read()
    interpreter = _interpreter(content, most)
    print(_least(content, most), flush=True)
    for number in range(inputs):
        wanted = interpreter.get_input_details(number)
        interpreter.set_input(np.zeros(wanted["shape"], wanted["dtype"]), number)
    interpreter.invoke()
    interpreter.print_allocations()
    return 0


if __name__ == "__main__":
    sys.exit(main())
