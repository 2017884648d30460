"""Plans carried out: checked by the verifier, then run inside, equal to the evaluator."""

import importlib.util
import signal
from functools import cache

import numpy as np
import pytest
from benchmarks.jax_programs import MEMORY_SCHEDULER, jax_programs
from tests.random_modules import MEMORY, SeededChoices, random_module, random_schedule
from tests.support import CONFORMANCE, SHARED, needs_shared

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.evaluator.in_arena import run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import UnsupportedOpError
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify


def bits(value):
    return [leaf.tobytes() for leaf in value_leaves(value) if isinstance(leaf, np.ndarray)]


def assert_holds(module, arguments):
    """Plan a module and assert that the plan is right, by the rules and by doing."""
    before = str(module)
    expected = bits(evaluate(module, arguments))
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert str(module) == before
    verify(plan.module)
    assert [str(violation) for violation in check_plan(plan.module, plan.assignment)] == []
    result = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert bits(result) == expected


# -- random modules ----------------------------------------------------------------------------


def random_cases(seed):
    """Return a module whose order is free, and the same one in a random order."""
    free, given = random_module(seed, MEMORY), random_module(seed, MEMORY)
    given.schedule = random_schedule(given, SeededChoices(seed))
    return free, given


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_modules(first):
    for seed in range(first, first + 20):
        module = random_cases(seed)[seed % 2]
        assert_holds(module, seeded_arguments(module, seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_many_random_modules(first):
    for seed in range(first, first + 100):
        for module in random_cases(seed):
            assert_holds(module, seeded_arguments(module, seed))


# -- recorded programs -------------------------------------------------------------------------

SECONDS = 10
"""Of the processor, for the evaluator and a recorded program."""


@cache
def recorded():
    """Return what the recorded programs need: their reader, items in fair order, texts."""
    spec = importlib.util.spec_from_file_location("execute", CONFORMANCE / "execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    index, _ = execute.load(CONFORMANCE / "execution.npz")
    texts = execute.texts(CONFORMANCE / "hlo_text.jsonl.xz")
    text = {record["id"]: record["text"] for record in texts}
    items = [x for x in index["items"] if x["status"] == "ok" and x["id"] in text]
    return execute, sorted(items, key=lambda item: item["seed"]), text


def ends_in_time(module, arguments):
    """Whether the evaluator takes a program at all, and comes to its end: a few loop for good."""

    def stop(signum, frame):
        raise TimeoutError

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        evaluate(module, arguments)
    except (UnsupportedOpError, TimeoutError):
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    return True


def holds(item):
    """Plan and run a recorded program; returns False where the evaluator does not end."""
    execute, _, text = recorded()
    module = parse_hlo(text[item["id"]])
    arguments = execute.inputs(item["inputs"], item["seed"], item["low"])
    if not ends_in_time(module, arguments):
        return False
    assert_holds(module, arguments)
    return True


@needs_shared
def test_a_sample_of_recorded_programs():
    _, items, text = recorded()
    sample = [item for item in items if "while(" not in text[item["id"]]][:150]
    assert sum([holds(item) for item in sample]) > 140


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_recorded_programs(part):
    _, items, _ = recorded()
    chosen = items[part::20]
    assert sum([holds(item) for item in chosen]) > 0.98 * len(chosen)


# -- programs in JAX ---------------------------------------------------------------------------


@cache
def programs():
    pytest.importorskip("jax")
    path = SHARED / "benchmarks" / "jax_corpus.py"
    return {program.name: program for program in jax_programs(path)}


@needs_shared
@pytest.mark.slow
def test_programs_in_our_order():
    for program in programs().values():
        assert_holds(program.module(), program.arguments())


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, MEMORY_SCHEDULER], ids=["default", "memory"])
def test_programs_in_the_order_of_xla(options):
    for program in programs().values():
        compiled = program.compiled(options)
        assert_holds(compiled.module(), program.arguments())
