"""Python's states of threads that C++ made: they outlive the calls that Python answers for."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import pytest

pytest.importorskip("jax")

from lowtide.pjrt import table

HEADER = {"struct_size": ctypes.c_size_t, "extension_start": ctypes.c_void_p}


class Mark:
    """What a thread holds as long as Python's state of it is there."""


def call_on_a_thread_of_c(function: int, argument: int) -> None:
    """Call a C function once on a thread that Python did not make, and wait for its end."""
    c = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    start = [ctypes.byref(thread), None, ctypes.c_void_p(function), ctypes.c_void_p(argument)]
    assert c.pthread_create(*start) == 0
    assert c.pthread_join(thread, None) == 0


def test_a_thread_of_c_keeps_its_state_behind_a_call() -> None:
    """A library that keeps the state that it met in one call finds it alive in the next one."""
    held = threading.local()
    marks: list[weakref.ref[Mark]] = []

    def answer(arguments: Any) -> None:
        held.mark = Mark()
        marks.append(weakref.ref(held.mark))

    table.serves("a call of a test")(answer)
    arguments = (ctypes.c_size_t * len(HEADER))()
    call_on_a_thread_of_c(table.address_of("a call of a test"), ctypes.addressof(arguments))
    assert [x() is not None for x in marks] == [True]
