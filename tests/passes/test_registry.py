"""Every pass does what its example shows; lists of passes are read or refused with a hint."""

from importlib.metadata import EntryPoint

import pytest
from tests.passes.results_of import LONG, result_of

import lowtide
from lowtide.ir.printer import fingerprint
from lowtide.passes import Pass, PassError
from lowtide.passes.interface import example
from lowtide.passes.registry import parse_passes, passes
from lowtide.testing.check_pass import check_pass


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_each_pass_does_what_its_example_shows(step: Pass) -> None:
    runs = "lowtide_python_function" not in step.before  # No process has the function of a text.
    result = check_pass(lambda module: bool(step.run(module)), step.before, evaluate=runs)
    assert fingerprint(result) == fingerprint(lowtide.parse_hlo(result_of(step)))


def test_a_long_result_is_that_of_a_pass_without_one() -> None:
    found = passes()
    assert sorted(LONG) == sorted(name for name, step in found.items() if not step.after)


def test_an_example_is_one_text_of_what_goes_and_what_comes() -> None:
    before, after = example("a {\n- x = 1\n+ x = 2\n  y = -3\n}\n-\n-b {\n-}\n")
    assert before == "a {\n  x = 1\n  y = -3\n}\n\nb {\n}\n"
    assert after == "a {\n  x = 2\n  y = -3\n}\n"


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_each_pass_settles(step: Pass) -> None:
    module = lowtide.parse_hlo(step.before)
    step.run(module)
    text = str(module)
    assert step.run(module) == 0
    assert str(module) == text


def test_each_option_has_a_meaning_and_is_read_back_as_it_is_shown() -> None:
    for step in passes().values():
        assert list(step.defaults) == [name for name, _ in step.meanings], step.name
        shown = step.with_options(**step.defaults)
        assert parse_passes(str(shown)) == (shown,)


def configured(
    module: lowtide.Module, *, times: int = 3, share: float = 0.5, deep: bool = False
) -> int:
    return times * deep


def vague(module: lowtide.Module, *, depth: object = None) -> int:
    return 0


def test_passes_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def point(name: str, value: str) -> EntryPoint:
        return EntryPoint(name, value, "lowtide.passes")

    here = __name__
    points = [
        point("absent", "no_such_package:step"),
        point("dull", f"{here}:configured"),
        point("good", f"{here}:GOOD"),
        point("taken", f"{here}:TAKEN"),
        point("vague", f"{here}:VAGUE"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    found = passes.__wrapped__()
    assert found.keys() - passes().keys() == {
        "absent",
        "dull",
        "good",
        "vague",
        f"dce of {here}:TAKEN",
    }
    assert found["good"] is GOOD
    assert found["dce"] is not TAKEN
    module = lowtide.parse_hlo(GOOD.before)
    for name, problem in {
        "absent": "entry point absent of lowtide.passes cannot be used: ModuleNotFoundError",
        "dull": "configured is no Pass",
        "vague": "option depth has a default that is none of: true or false",
        f"dce of {here}:TAKEN": "there is a pass dce already",
    }.items():
        assert problem in found[name].sentence
        with pytest.raises(PassError, match=problem):
            found[name].run(module)


_SAME = "HloModule m\nENTRY main {\n  ROOT x = f32[] parameter(0)\n}\n"
GOOD = Pass("good", configured, "Does nothing.", _SAME, _SAME)
TAKEN = Pass("dce", configured, "Does nothing.", _SAME, _SAME)
VAGUE = Pass("vague", vague, "Does nothing.", _SAME, _SAME)


def test_options_are_read_by_the_type_of_their_default(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Pass("configured", configured, "", "", "")
    monkeypatch.setattr("lowtide.passes.registry.passes", lambda: {"configured": step})
    assert [str(x) for x in parse_passes("configured, configured{times=4,deep=true}")] == [
        "configured",
        "configured{times=4,deep=true}",
    ]
    for wrong, problem in {
        "configured{times=many}": "takes a whole number, found 'many'",
        "configured{share=nan}": "takes a number, found 'nan'",
        "configured{deep=1}": "takes true or false, found '1'",
        "configured{depth=1}": "no option 'depth'; there are: times, share, deep",
        "configured{times}": "expected option=value",
        "configured{times=4": "at column 1",
        "configure": "did you mean 'configured'",
    }.items():
        with pytest.raises(PassError, match=problem):
            parse_passes(wrong)
