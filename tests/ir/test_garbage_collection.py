"""Python's collector: what lasts is not looked at, what a caller froze stays frozen."""

import gc
import subprocess
import sys

import pytest
from tests.support import EXAMPLES

from lowtide.ir.garbage_collection import count_as_lasting, without_collection


class Node:
    """An object that the collector knows."""


def is_in(generation, wanted):
    return any(x is wanted for x in gc.get_objects(generation=generation))


@pytest.fixture
def resting():
    """Keep the collector from running on its own."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("resting")
def test_what_lives_is_old_afterwards():
    node = Node()
    assert is_in(0, node)
    count_as_lasting()
    assert is_in(2, node)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("resting")
def test_what_a_caller_froze_stays_frozen():
    node = Node()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        count_as_lasting()
        assert gc.get_freeze_count() == frozen > 0
        assert not is_in(2, node)
    finally:
        gc.unfreeze()


def test_garbage_is_found_at_the_end():
    node = Node()
    node.itself = node
    with without_collection():
        made = Node()
        made.itself = made
        gone = id(made)
        del made
    assert not any(id(x) == gone and isinstance(x, Node) for x in gc.get_objects())


def test_a_first_compilation_does_not_look_through_the_modules_that_it_loads():
    script = """
import gc, sys, lowtide
module = lowtide.read(sys.argv[1])
looked_at = []
gc.callbacks.append(lambda phase, _: phase == "start" and looked_at.append(gc.get_count()[0]))
gc.collect(0)
looked_at.clear()
lowtide.compile(module, cache=False)
print(max(looked_at))
"""
    command = [sys.executable, "-c", script, str(EXAMPLES / "mlp.hlo.xz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 36_000  # Twice as many where modules are looked through.
