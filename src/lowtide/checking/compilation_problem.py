"""The problem of a certificate of kind "compilation", worked out anew from a module.

Nothing here is shared with the search for the bound: values, kinds of operations, what lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from lowtide.checking.elements import CheckedElements
from lowtide.checking.forwarding import ENDS, NEW, Values, forwarded, may_forward
from lowtide.checking.order import callees, computations
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.shape import HOST_MEMORY

_WORDS: Final = {
    "given": "parameter constant",
    "behind": """
        add-dependency bitcast get-tuple-element opt-barrier reshape reverse transpose tuple

        abs acos acosh add and asin asinh atan2 atanh bitcast-convert cbrt ceil clamp compare
        complex convert copy cosh cosine count-leading-zeros divide erf exponential
        exponential-minus-one floor imag is-finite log log-plus-one logistic map maximum minimum
        mulhi multiply negate not or popcnt power real reduce-precision remainder round-nearest-afz
        round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign
        sine sinh sqrt stochastic-convert subtract tan tanh xor
    """,
    "free": """
        after-all broadcast concatenate dynamic-slice dynamic-update-slice gather iota pad
        partition-id reduce replica-id slice
    """,
    "apart": "convolution dot fft reduce-window select-and-scatter",
}
"""Opcodes by how they run, those that work on one element at a time in a paragraph of their own."""
_HOW: Final = {opcode: how for how, words in _WORDS.items() for opcode in words.split()}


def how_it_runs(opcode: Opcode) -> str:
    """Return the word of an operation in a certificate."""
    return _HOW.get(opcode.value, "once")


def differences(form: Mapping[str, Any], module: Module) -> list[str]:
    """Return in what a form of a valid certificate is not about a module; none if it is.

    The module is at the stage "layout". Its text is not compared.
    """
    try:
        return _differences(form, module)
    except ValueError as error:
        return [str(error)]
    except (LookupError, TypeError) as error:  # Parts that the proof does not look at.
        return [f"malformed, {type(error).__name__}: {error}"]


def _differences(form: Mapping[str, Any], module: Module) -> list[str]:
    names = [x["name"] for x in form["computations"]]
    found = [] if names[:1] == [module.entry.name] else ["another entry"]
    expected = _expected(module, names)
    found += [
        f"{key}: {form[key]:,} bytes, not {expected[key]:,}"
        for key in ("arguments", "lasting")
        if form[key] != expected[key]
    ]
    for own, other in zip(form["computations"], expected["computations"], strict=True):
        shown, wanted = _by_name(own), _by_name(other)
        wrong = [x for x in {**shown, **wanted} if shown.get(x) != wanted.get(x)]
        if wrong:
            found.append(f"{own['name']}: other {', '.join(sorted(wrong)[:4])}")
    return found


def _by_name(section: Mapping[str, Any]) -> dict[str, object]:
    """What a section says of each operation, its values named by maker and place."""
    named = {
        v: (row[0], k, section["bytes"][v])
        for row in section["operations"]
        for k, v in enumerate(sorted(row[3]))
    }
    found: dict[str, object] = {
        name: (how, *[frozenset([named[v] for v in values]) for values in lists], sorted(inside))
        for name, how, *lists, inside in section["operations"]
    }
    found["results"] = frozenset([named[v] for v in section["kept"]])
    return found


# -- from a module ---------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Found:
    """The values of a computation. Rows of `operations` are those of the certificate.

    `state` has what each loop is given of what it changes.
    """

    of: dict[Instruction, Values] = field(default_factory=dict)
    operations: list[list[Any]] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    changed: dict[Instruction, list[int]] = field(default_factory=dict)

    def section(self, computation: Computation, lasting: Collection[int]) -> dict[str, Any]:
        """Return what a certificate has of the computation."""
        nbytes = [
            0 if v in lasting or v in self.constants else x for v, x in enumerate(self.nbytes)
        ]
        kept = sorted({*self.of[computation.root]})
        rows = self.operations
        return {"name": computation.name, "operations": rows, "bytes": nbytes, "kept": kept}


def _expected(module: Module, names: Sequence[str]) -> dict[str, Any]:
    """Return the form of a module, with the computations named: each runs in the one before it.

    Raises ValueError where they do not.
    """
    elements = CheckedElements(tables=False)
    known: dict[Computation, _Found] = {}
    for computation in computations(module.entry):
        known[computation] = _Finder(known, elements).run(computation)
    entry = known[module.entry]
    offered = _offered(module, entry, elements)
    lasting = {*entry.parameters} - offered
    sections = [entry.section(module.entry, lasting)]
    computation = module.entry
    for name in names[1:]:
        caller, outer = known[computation], sections[-1]["bytes"]
        found = [
            (x, k)
            for x in computation.instructions.values()
            for k, callee in enumerate(callees(x))
            if callee.name == name
        ]
        if not found:
            raise ValueError(f"{computation.name} does not run {name}")
        x, k = found[0]
        computation = callees(x)[k]
        inner = known[computation]
        if x.opcode is Opcode.WHILE:
            changed = caller.changed[x]
            lasting = {v for i, v in enumerate(inner.parameters) if i not in changed}
        else:
            given = caller.of[x.operands[k + 1]]
            pairs = zip(inner.parameters, given, strict=True)
            lasting = {v for v, value in pairs if not outer[value]}
        sections.append(inner.section(computation, lasting))
    arguments = sum([entry.nbytes[v] for v in entry.parameters])
    stay = sum([entry.nbytes[v] for v in {*entry.parameters} - offered])
    return {"arguments": arguments, "lasting": stay, "computations": sections}


def _offered(module: Module, entry: _Found, elements: CheckedElements) -> set[int]:
    """The values of arguments that the module lets the program overwrite."""
    found: set[int] = set()
    offers = [(x.parameter, x.parameter_index) for x in module.input_output_aliases]
    offers += [(x.parameter, x.parameter_index) for x in module.buffer_donors]
    for number, index in offers:
        parameter = module.entry.parameters[number]
        found.update(entry.of[parameter][elements.part(parameter.shape, index)])
    return found


class _Finder:
    """The walk over a computation, given those that it calls."""

    def __init__(self, known: Mapping[Computation, _Found], elements: CheckedElements) -> None:
        self.known = known
        self.elements = elements
        self.found = _Found()

    def run(self, computation: Computation) -> _Found:
        """Return what is found."""
        found = self.found
        for x in _operands_first(computation):
            operands = [found.of[y] for y in x.operands]
            passed = self._passed_on(x, operands)
            values = (NEW,) * self.elements.count(x.shape) if passed is None else passed
            first = len(found.nbytes)
            shapes = [y.shape for y in self.elements.of(x.shape)]
            made = [shape for shape, value in zip(shapes, values, strict=True) if value == NEW]
            found.nbytes += [0 if y.memory_space == HOST_MEMORY else y.nbytes for y in made]
            makes = range(first, len(found.nbytes))
            numbers = iter(makes)
            found.of[x] = tuple([next(numbers) if v == NEW else v for v in values])
            waits = x.opcode in ENDS or x.opcode is Opcode.ASYNC_UPDATE or bool(callees(x))
            reads = chain(*operands) if passed is None or NEW in passed or waits else ()
            self._add(x, [*makes], {*reads})
        for parameter in computation.parameters:
            found.parameters += found.of[parameter]
        return found

    def _add(self, x: Instruction, makes: list[int], reads: set[int]) -> None:
        found, how = self.found, how_it_runs(x.opcode)
        without, inside = set[int](), list[str]()
        if x.opcode is Opcode.WHILE:
            initial = found.of[x.operands[0]]
            without = {initial[i] for i in found.changed[x]} | {*makes}
            inside = [callees(x)[1].name]
        elif x.opcode is Opcode.CONDITIONAL:
            without, inside = reads | {*makes}, [y.name for y in callees(x)]
        if x.opcode is Opcode.CONSTANT:
            found.constants.update(makes)
        if makes or how not in ("free", "behind", "given"):
            row = [x.name, how, sorted(reads), makes, sorted(without), inside]
            found.operations.append(row)

    def _passed_on(self, x: Instruction, operands: Sequence[Values]) -> Values | None:
        """Per element of the result the value that it is, or NEW; None where all are new."""
        if x.opcode is Opcode.WHILE:
            body = callees(x)[1]
            inner = self.known[body]
            ends = inner.of[body.root]
            pairs = enumerate(zip(inner.parameters, ends, strict=True))
            changed = self.found.changed[x] = [i for i, (before, after) in pairs if before != after]
            return tuple([NEW if i in changed else v for i, v in enumerate(operands[0])])
        if x.opcode is Opcode.CONDITIONAL:
            rows = [self._returned(y, z) for y, z in zip(callees(x), operands[1:], strict=True)]
            columns = zip(*rows, strict=True)
            return tuple([row[0] if len({*row}) == 1 else NEW for row in columns])
        if x.opcode is Opcode.CALL:
            return self._returned(callees(x)[0], tuple(chain(*operands)))
        if x.opcode is Opcode.ASYNC_START:
            raise ValueError(f"{x.name} is asynchronous, which is not followed here")
        return operands[0] if may_forward(x) else forwarded(x, operands, self.elements)

    def _returned(self, callee: Computation, given: Values) -> Values:
        inner = self.known[callee]
        outer = dict(zip(inner.parameters, given, strict=True))
        return tuple([outer.get(v, NEW) for v in inner.of[callee.root]])


def _operands_first(computation: Computation) -> Iterable[Instruction]:
    """The instructions of a computation, each behind its operands."""
    placed: dict[Instruction, None] = {}
    for root in computation.instructions.values():
        todo = [root]
        while todo:
            x = todo[-1]
            fresh = [y for y in x.operands if y not in placed]
            todo += fresh
            if not fresh:
                placed.setdefault(todo.pop())
    return placed
