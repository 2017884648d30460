"""Each rule of the algebraic simplifier, before and after, and where it must not fit."""

from importlib import import_module
from pkgutil import iter_modules

import pytest
from tests.transforms.simplify import cases
from tests.transforms.simplify.cases.notation import Case, body, outside

from lowtide.ir import Opcode
from lowtide.testing.check_rule import check_rule
from lowtide.transforms.simplify.algebraic_simplifier import FILES, rules, rules_in, rules_of

MANY = 50
"""A file has rules for more opcodes than that, or the table lists them."""

RULES = {rule.name: rule for rule in rules()}


def all_cases() -> list[Case]:
    files = sorted([info.name for info in iter_modules(cases.__path__)])
    modules = [import_module(f"{cases.__name__}.{file}") for file in files]
    return [case for module in modules for case in getattr(module, "CASES", [])]


CASES = all_cases()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "before", "after"), CASES, ids=[case[0] for case in CASES])
def test_rules(name: str, before: str, after: str | None) -> None:
    expected = None if after is None else body(after)
    check_rule(RULES[name], body(before), expected, outside(f"{before}; {after}"))


def test_every_rule_has_a_case() -> None:
    shown = {name for name, _, after in CASES if after is not None}
    assert sorted(shown ^ set(RULES)) == []


def test_names_of_rules_are_unique() -> None:
    assert len(RULES) == len(rules()) >= 150


def test_the_table_of_files_says_what_each_has() -> None:
    folder = import_module("lowtide.transforms.simplify")
    names = sorted([info.name for info in iter_modules(folder.__path__)])
    found = {name: x for name in names if (x := rules_in(name))}
    assert list(FILES) == list(found)
    for name, opcodes in FILES.items():
        about = {opcode for rule in found[name] for opcode in rule.opcodes}
        assert len(about) > MANY if opcodes is None else about == opcodes, name


def test_rules_of_an_opcode_are_all_rules_for_it_in_their_order() -> None:
    for opcode in Opcode:
        assert rules_of(opcode) == [x for x in rules() if opcode in x.opcodes]
