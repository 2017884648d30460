"""The table of passes: it has them all, and a pass it leaves out would have changed nothing."""

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

import pytest
from tests.passes.results_of import result_of
from tests.random_modules import MEMORY, Recipe, random_module

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import ElementType, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes import Pass
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.interface import LatePass
from lowtide.passes.needs import Trait, features_of
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import late_passes, own_pass
from lowtide.passes.table import TABLE

PACKAGES = ("lowtide.passes", "lowtide.transforms", "lowtide.fusion")
ROWS = {name: row for name, row in TABLE.items() if row.needs}


def everywhere() -> Iterator[tuple[str, Pass]]:
    """Yield all passes of the rooms that have some, each with the module that holds it."""
    for package in PACKAGES:
        for info in walk_packages(import_module(package).__path__, f"{package}."):
            for step in getattr(import_module(info.name), "PASSES", ()):
                yield info.name.removeprefix("lowtide."), step


def test_each_pass_has_its_row() -> None:
    found = [(step.name, module) for module, step in everywhere()]
    assert sorted(found) == [(name, row.module) for name, row in TABLE.items()]


@pytest.mark.parametrize("name", TABLE)
def test_a_row_says_what_a_pass_takes(name: str) -> None:
    parameters = inspect.signature(own_pass(name).function).parameters.values()
    told = [x.name for x in parameters if x.kind is not x.KEYWORD_ONLY][1:]
    assert set(told) == TABLE[name].takes


@cache
def modules() -> tuple[Module, ...]:
    """Modules of many kinds, without what nobody reads, which any pass may remove."""
    texts = [x for name in TABLE for x in (own_pass(name).before, result_of(own_pass(name)))]
    found = [parse_hlo(x) for x in texts if x]
    found += [random_module(seed, recipe) for seed in range(150) for recipe in (Recipe(), MEMORY)]
    for module in found:
        module.schedule = None
        remove_dead_code(module)
    return tuple(found)


def lacks(module: Module, name: str) -> bool:
    features = features_of(module)
    return any(features.isdisjoint(x) for x in TABLE[name].needs)


@pytest.mark.parametrize("name", ROWS)
def test_a_pass_changes_nothing_where_what_it_needs_is_not_there(name: str) -> None:
    lacking = [x for x in modules() if lacks(x, name)]
    assert lacking
    for module in lacking:
        copy = clone_module(module)
        before = str(copy)
        assert own_pass(name).run(copy) == 0
        assert str(copy) == before


@pytest.mark.parametrize("name", ROWS)
def test_what_a_pass_needs_is_in_what_it_changes(name: str) -> None:
    assert not lacks(parse_hlo(own_pass(name).before), name)


def test_a_pass_is_loaded_only_where_it_may_find_something() -> None:
    loaded: list[str] = []

    def load(name: str) -> Pass:
        loaded.append(name)
        return own_pass(name)

    def late(name: str) -> Pass:
        row = TABLE[name]
        return Pass(name, LatePass(lambda: load(name), row.takes), "", "", "", needs=row.needs)

    text = "HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] {}(x)\n}}"
    steps = [late("expand-logistic"), late("while-unroller"), late("zero-sized")]
    assert run_pipeline(parse_hlo(text.format("sine")), steps) == 0
    assert loaded == []
    assert run_pipeline(parse_hlo(text.format("logistic")), steps) > 0
    assert set(loaded) == {"expand-logistic"}


def test_what_a_pass_makes_is_seen_by_those_behind_it() -> None:
    text = """
HloModule m

inner {
  a = f32[4] parameter(0)
  ROOT b = f32[4] logistic(a)
}

ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] call(x), to_apply=inner
}
"""
    module = parse_hlo(text)
    run_pipeline(module, late_passes("inline,expand-logistic"))
    assert Opcode.LOGISTIC not in features_of(module)


def test_late_passes_take_what_they_are_told() -> None:
    (step,) = late_passes("attention-fusion")
    assert step.told({"scheduler": 1}) is step
    assert step.told({"target": 1}) is not step


@pytest.mark.parametrize(
    ("line", "trait"),
    [
        ("f32[0,4] parameter(1)", Trait.EMPTY),
        ("f32[2,4]{0,1} parameter(1)", Trait.REORDERED),
        ("bf16[4] parameter(1)", Trait.MIXED),
        ("c64[4] parameter(1)", Trait.MIXED),
        ("pred[4] compare(x, x), direction=LT, type=TOTALORDER", Trait.TOTAL_ORDER),
        ("s8[4] parameter(1)", ElementType.S8),
        ("f32[4] negate(x)", Opcode.NEGATE),
    ],
)
def test_features_are_those_of_the_module_as_it_is(line: str, trait: object) -> None:
    """They are kept for one version of a computation."""
    text = "HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n{}  ROOT z = f32[4] sine(x)\n}}"
    plain, other = parse_hlo(text.format("")), parse_hlo(text.format(f"  y = {line}\n"))
    assert trait not in features_of(plain)
    assert trait in features_of(other)
    features_of(plain)
    x = plain.entry.root
    plain.entry.root = plain.entry.add(Opcode.TANH, x.shape, (x,))
    assert Opcode.TANH in features_of(plain)
