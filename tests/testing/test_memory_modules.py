from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.random_modules import (
    MEMORY,
    MEMORY_FAMILIES,
    Recipe,
    SeededChoices,
    random_module,
    random_schedule,
)
from tests.random_modules.strategies import memory_modules
from tests.testing.test_modules import check

from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.shape import major_to_minor
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify


def instructions(module):
    return [x for c in module.computations.values() for x in c.instructions.values()]


def same_bits(a, b):
    """Whether two results are equal to the bit, NaN included."""
    pairs = zip(value_leaves(a), value_leaves(b), strict=True)
    return all(x is y or x.tobytes() == y.tobytes() for x, y in pairs if isinstance(x, np.ndarray))


def test_modules_are_valid_keep_their_text_and_run():
    for seed in range(150):
        module = random_module(seed, MEMORY)
        check(module)
        evaluate(module, seeded_arguments(module, seed))


def test_xla_reads_the_modules_and_prints_them_as_we_do():
    hlo = pytest.importorskip("jaxlib._hlo")
    for seed in range(150):
        module = random_module(seed, MEMORY)
        assert hlo.hlo_module_from_text(to_text(module, COMPLETE)).to_string() == str(module)


@pytest.mark.parametrize("family", MEMORY_FAMILIES)
def test_each_family_can_be_drawn_alone(family):
    opcodes = Counter()
    for seed in range(20):
        module = random_module(seed, Recipe((family,), max_instructions=6))
        check(module)
        opcodes.update([x.opcode for x in instructions(module)])
    assert len(opcodes) > 5


@settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(memory_modules())
def test_drawn_modules_are_valid(module):
    check(module)


def test_every_order_is_legal_and_gives_the_same_values():
    distinct = 0
    for seed in range(60):
        module = random_module(seed, MEMORY)
        arguments = seeded_arguments(module, seed)
        expected = evaluate(module, arguments)
        schedules = [random_schedule(module, SeededChoices(seed)) for _ in range(2)]
        assert schedules[0] == schedules[1]
        module.schedule = schedules[0]
        verify(module)
        distinct += str(module) != str(random_module(seed, MEMORY))
        assert same_bits(evaluate(parse_hlo(to_text(module, COMPLETE)), arguments), expected)
    assert distinct > 50


# -- what is promised --------------------------------------------------------------------------


def carries(loop):
    """Return what the body makes of each element of its state, by where it comes from."""
    body = loop.called_computations[1]
    (parameter,) = body.parameters
    root = body.root
    for number, value in enumerate(root.operands):
        if value.opcode is Opcode.CONSTANT or value.opcode is Opcode.BROADCAST:
            yield "constant carry"
        if value.opcode is not Opcode.GET_TUPLE_ELEMENT or value.operands[0] is not parameter:
            continue
        yield "carry passed on" if value.attributes.index == number else "carry swapped"
    if len(set(root.operands)) < len(root.operands):
        yield "carry twice"


def of_loop(loop):
    yield from carries(loop)
    init = loop.operands[0]
    if len(set(init.operands)) < len(init.operands):
        yield "one value for two carries"
    if any(len(value.users) > 1 for value in init.operands):
        yield "initial value used elsewhere"
    opcodes = {x.opcode for x in loop.called_computations[1].instructions.values()}
    found = {
        Opcode.WHILE: "nested loop",
        Opcode.CONDITIONAL: "conditional in a loop",
        Opcode.CALL: "call in a loop",
        Opcode.DYNAMIC_UPDATE_SLICE: "update in a loop",
        Opcode.SCATTER: "scatter in a loop",
        Opcode.ASYNC_START: "asynchronous call in a loop",
    }
    yield from [name for opcode, name in found.items() if opcode in opcodes]
    if len(loop.called_computations[0].instructions) > 5:
        yield "condition reads a value"


def of_conditional(conditional):
    for branch in conditional.called_computations:
        root = branch.root
        if len(set(root.operands)) < len(root.operands):
            yield "branch returns one value twice"
        for value in root.operands:
            if value.opcode is Opcode.CONSTANT:
                yield "branch returns a constant"
            if value.opcode is Opcode.PARAMETER or (
                value.opcode is Opcode.GET_TUPLE_ELEMENT
                and value.operands[0].opcode is Opcode.PARAMETER
            ):
                yield "branch passes a value on"


def of_result(module):
    leaves = dict(module.entry.root.shape.leaves())
    root = module.entry.root
    places = [(index,) for index in range(len(leaves))]
    if root.opcode is not Opcode.TUPLE:
        return
    if len(set(root.operands)) < len(root.operands):
        yield "result twice"
    outputs = dict(zip(places, root.operands, strict=False))
    arguments = module.entry.parameters
    yield from {x.opcode.value + " as a result" for x in root.operands}
    for alias in module.input_output_aliases:
        output = outputs.get(alias.output_index)
        if output is None or output.opcode is not Opcode.PARAMETER:
            continue
        same = output is arguments[alias.parameter]
        yield "argument passed on in place" if same else "argument over another one"
    yield from ["must alias" for x in module.input_output_aliases if x.must]
    yield from ["donor" for _ in module.buffer_donors]


def phenomena(module):
    yield from of_result(module)
    callers = Counter()
    for x in instructions(module):
        if x.opcode is Opcode.WHILE:
            yield from of_loop(x)
        if x.opcode is Opcode.CONDITIONAL:
            yield from of_conditional(x)
        if x.opcode is Opcode.CALL:
            callers[x.called_computations[0]] += 1
        if getattr(x.attributes, "output_to_operand_aliasing", ()):
            yield x.opcode.value + " declares an alias"
        if x.shape.is_array and x.shape.layout != major_to_minor(x.shape.rank):
            yield "layout"
        updated = [o for o in x.operands[:1] if o.opcode is x.opcode]
        if x.opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER) and updated:
            yield x.opcode.value + " chain"
    for callee, count in callers.items():
        if count > 1:
            yield "several call sites"
            if Opcode.WHILE in [x.opcode for x in callee.instructions.values()]:
                yield "several call sites of a loop"


PROMISED = """
    nested loop; conditional in a loop; call in a loop; update in a loop; scatter in a loop
    asynchronous call in a loop; condition reads a value; constant carry; carry passed on
    carry swapped; carry twice; one value for two carries; initial value used elsewhere
    branch returns one value twice; branch returns a constant; branch passes a value on
    result twice; parameter as a result; constant as a result; argument passed on in place
    argument over another one; must alias; donor; fusion declares an alias; tuple as a result
    custom-call declares an alias; layout; dynamic-update-slice chain; scatter chain
    several call sites; several call sites of a loop
"""


def test_all_that_makes_copies_necessary_occurs_often():
    seen = Counter()
    for seed in range(400):
        seen.update(set(phenomena(random_module(seed, MEMORY))))
    promised = [name.strip() for line in PROMISED.split("\n") for name in line.split(";")]
    assert {name: seen[name] for name in promised if name and seen[name] < 5} == {}


def test_equal_seeds_give_equal_text():
    texts = [[str(random_module(seed, MEMORY)) for seed in range(10)] for _ in range(2)]
    assert texts[0] == texts[1]
    assert all(a != b for a, b in pairwise(texts[0]))
