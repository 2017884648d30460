from dataclasses import dataclass

import pytest

from lowtide.analysis.cache import AnalysisCache, StaleAnalysisError
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Computation, Module, Opcode, Schedule

TEXT = """
HloModule m
f { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }
ENTRY e { a = f32[] parameter(0)  b = f32[] call(a), to_apply=f  ROOT c = f32[] abs(b) }
"""


class Counter:
    """Counts its calls: an analysis that is told from others by identity."""

    def __init__(self):
        self.calls = 0

    def __call__(self, subject):
        self.calls += 1
        return self.calls


@dataclass(frozen=True)
class WithOption:
    option: int

    def __call__(self, subject: Computation) -> tuple[int, str]:
        return self.option, subject.name


def test_a_result_for_a_computation_holds_until_that_computation_changes():
    module, cache, analysis = parse_hlo(TEXT), AnalysisCache(), Counter()
    entry, f = module.entry, module.computations["f"]
    assert [cache.get(analysis, c) for c in (entry, f, entry, f)] == [1, 2, 1, 2]
    f.add(Opcode.ABS, f.root.shape, (f.root,))
    assert [cache.get(analysis, c) for c in (entry, f)] == [1, 3]


def changes():
    yield "instruction", lambda m: m.computations["f"].touch()
    yield "root", lambda m: setattr(m.entry, "root", m.entry.parameters[0])
    yield "computation", lambda m: m.add_computation("g")
    yield (
        "replaced computation",
        lambda m: (
            m.remove_computation(m.computations["f"]),
            m.add_computation("f"),
        ),
    )
    yield "schedule", lambda m: setattr(m, "schedule", Schedule({}))
    yield "entry", lambda m: setattr(m, "entry", m.computations["f"])
    yield "control", lambda m: m.entry.root.add_control_predecessor(m.entry.parameters[0])


@pytest.mark.parametrize(("what", "change"), list(changes()))
def test_a_result_for_a_module_holds_until_anything_in_it_changes(what, change):
    module, cache, analysis = parse_hlo(TEXT), AnalysisCache(), Counter()
    assert [cache.get(analysis, module) for _ in range(2)] == [1, 1]
    change(module)
    assert [cache.get(analysis, module) for _ in range(2)] == [2, 2]


def test_analyses_and_modules_are_told_apart():
    one, other, cache = parse_hlo(TEXT), parse_hlo(TEXT), AnalysisCache()
    assert cache.get(WithOption(1), one.entry) == (1, "e")
    assert cache.get(WithOption(2), one.entry) == (2, "e")
    assert cache.get(WithOption(1), one.entry) is cache.get(WithOption(1), one.entry)
    analysis = Counter()
    assert [cache.get(analysis, m) for m in (one, other)] == [1, 2]


def test_a_schedule_that_is_freed_is_not_taken_for_the_next_one():
    module, cache, analysis = parse_hlo(TEXT), AnalysisCache(), Counter()
    for number in range(1, 20):
        module.schedule = Schedule({})
        assert cache.get(analysis, module) == number


def test_forget():
    module, cache, analysis = parse_hlo(TEXT), AnalysisCache(check=True), Counter()
    cache.get(analysis, module)
    cache.get(analysis, module.entry)
    cache.forget(module)
    assert [cache.get(analysis, x) for x in (module, module.entry)] == [3, 2]


@pytest.mark.parametrize("subject", [lambda m: m, lambda m: m.entry])
def test_check_finds_changes_past_the_doors(subject):
    module: Module = parse_hlo(TEXT)
    cache, analysis = AnalysisCache(check=True), Counter()
    assert [cache.get(analysis, subject(module)) for _ in range(2)] == [1, 1]
    module.entry.root.opcode = Opcode.NEGATE
    with pytest.raises(StaleAnalysisError, match="its version did not"):
        cache.get(analysis, subject(module))
    module.entry.touch()
    assert cache.get(analysis, subject(module)) == 2
