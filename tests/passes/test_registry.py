"""Every pass does what its example shows; lists of passes are read or refused with a hint."""

import pytest

import lowtide
from lowtide.ir.printer import fingerprint
from lowtide.passes import Pass, PassError
from lowtide.passes.registry import parse_passes, passes
from lowtide.testing.check_pass import check_pass


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_each_pass_does_what_its_example_shows(step: Pass) -> None:
    result = check_pass(lambda module: bool(step.run(module)), step.before, evaluate=True)
    assert fingerprint(result) == fingerprint(lowtide.parse_hlo(step.after))


@pytest.mark.parametrize("step", passes().values(), ids=lambda step: step.name)
def test_each_pass_settles(step: Pass) -> None:
    module = lowtide.parse_hlo(step.before)
    step.run(module)
    text = str(module)
    assert step.run(module) == 0
    assert str(module) == text


def configured(module: lowtide.Module, *, times: int = 3, deep: bool = False) -> int:
    return times * deep


def test_options_are_read_by_the_type_of_their_default(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Pass("configured", configured, "", "", "")
    monkeypatch.setattr("lowtide.passes.registry.passes", lambda: {"configured": step})
    assert [str(x) for x in parse_passes("configured, configured{times=4,deep=true}")] == [
        "configured",
        "configured{times=4,deep=true}",
    ]
    for wrong, problem in {
        "configured{times=many}": "takes a whole number, found 'many'",
        "configured{deep=1}": "takes a truth value, found '1'",
        "configured{depth=1}": "no option 'depth'; there are: times, deep",
        "configured{times}": "expected option=value",
        "configured{times=4": "at column 1",
        "configure": "did you mean 'configured'",
    }.items():
        with pytest.raises(PassError, match=problem):
            parse_passes(wrong)
