"""Plans of modules whose searches end early: valid, with a true bound, and said to be so."""

import pytest
from tests.budgeting.chains import training_step
from tests.compiler.test_proposals import COSTLY, Watch
from tests.support import EXAMPLES

import lowtide
from lowtide import Options, compiler
from lowtide.certificate import REJECTED, check
from lowtide.checking import check_plan
from lowtide.client.executable.anew import compile_anew
from lowtide.compiler import PlanOptions, ordering, proposals
from lowtide.compiler.certificates import certificate_of
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import BUDGET_SECONDS
from lowtide.planning.certificates import certificate_text
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions

NAMES = ("lstm.hlo.xz", "mlp.hlo.xz", "mnist_cnn.hlo.xz")
CAVEAT = "a deadline ended the search: another run may give another plan"


def example(name: str) -> lowtide.Module:
    return lowtide.read(EXAMPLES / name)


def refused(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("nothing is to be searched any more")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("effort", Effort)
def test_a_plan_that_nothing_is_searched_for(name, effort, monkeypatch) -> None:
    for place in ("module_search.Searches.search", "module_search.lower_order", "cuts.Cuts"):
        monkeypatch.setattr(f"lowtide.scheduling.{place}", refused)
    monkeypatch.setattr("lowtide.compiler.placing._packed_by", refused)
    made = compiler.plan(example(name), compiler.PlanOptions(search=SearchOptions(effort, 0.0)))
    assert not check_plan(made.module, made.assignment)
    ladder = made.report.ladder
    assert 0 <= ladder.bound_bytes <= ladder.live_bytes <= ladder.arena_bytes
    assert made.report.caveats[0] == CAVEAT


@pytest.mark.parametrize("name", NAMES)
def test_its_bound_and_certificate_are_true(name) -> None:
    early = compiler.plan(example(name), compiler.PlanOptions(search=SearchOptions(deadline=0.0)))
    text = certificate_text(certificate_of(early)).encode()
    assert check(text).answer != REJECTED
    module = lowtide.parse_hlo(str(early.module))
    module.schedule = None
    searched = compiler.explain(module, compiler.PlanOptions("input")).ladder
    assert early.report.ladder.bound_bytes <= searched.live_bytes


@pytest.mark.parametrize("name", NAMES)
def test_a_deadline_that_is_far_changes_nothing(name) -> None:
    plain = compiler.plan(example(name))
    far = compiler.plan(example(name), compiler.PlanOptions(search=SearchOptions(deadline=1e6)))
    assert str(plain.module) == str(far.module)
    assert plain.report.ladder == far.report.ladder
    assert plain.report.caveats == far.report.caveats


def test_an_interrupt_behind_the_passes_leaves_a_plan(monkeypatch) -> None:
    deadline = Deadline()
    insert = ordering.insert_copies

    def interrupted(module: lowtide.Module) -> object:
        deadline.interrupt()
        return insert(module)

    monkeypatch.setattr(ordering, "insert_copies", interrupted)
    made = compiler.plan(
        example(NAMES[0]), compiler.PlanOptions(search=SearchOptions(deadline=deadline))
    )
    assert not check_plan(made.module, made.assignment)
    assert made.report.caveats[0].startswith("Ctrl-C ended the search")


def test_nothing_that_takes_time_is_proposed_from_the_deadline_on(monkeypatch) -> None:
    late, plain = [example("gpt2_remat.hlo.xz") for _ in range(2)]
    proposals.optimize(plain, PlanOptions("scheduled", memory_priority=0.0))
    proposals.optimize(late, PlanOptions("scheduled", search=SearchOptions(deadline=Deadline(0))))
    assert str(late) == str(plain)
    counted = []
    within = proposals._Kernels.within
    monkeypatch.setattr(proposals._Kernels, "within", lambda *x: counted.append(1) or within(*x))
    proposals.optimize(
        example(NAMES[0]), PlanOptions("scheduled", search=SearchOptions(deadline=Deadline(0)))
    )
    assert len(counted) == 1


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_programs_with_a_deadline_say_so_and_are_not_kept() -> None:
    made = lowtide.compile(example(NAMES[0]), options=Options(deadline=0.0))
    assert CAVEAT in made.memory["caveats"]
    again = lowtide.compile(example(NAMES[0]))
    assert not again.making.was_cached and CAVEAT not in again.memory["caveats"]
    assert lowtide.compile(example(NAMES[0]), options=Options(deadline=0.0)).making.was_cached


@pytest.mark.usefixtures("empty_cache")
def test_programs_that_the_deadline_of_a_budget_ended_are_kept(monkeypatch) -> None:
    """But for who asks for a longer search."""
    module = training_step()
    budget = lowtide.compile(module).arena_bytes * 3 // 4
    monkeypatch.setattr("lowtide.options.BUDGET_SECONDS", 0.0)
    told: list[str] = []
    made = lowtide.compile(module, memory=budget, progress=told.append)
    assert CAVEAT in made.memory["caveats"] and made.arena_bytes <= budget
    assert told and "more time" in told[-1]
    assert lowtide.compile(module, memory=budget).making.was_cached
    assert lowtide.compile(module, memory=budget, deadline=30).making.was_cached
    longer = lowtide.compile(module, memory=budget, deadline=1e6)
    assert not longer.making.was_cached and CAVEAT not in longer.memory["caveats"]


def test_a_limited_memory_has_a_deadline_of_its_own() -> None:
    assert Options().search_seconds is None
    assert Options(memory=100).search_seconds == BUDGET_SECONDS
    assert Options(memory=100, deadline=5.0).search_seconds == Options(deadline=5.0).search_seconds


def test_one_deadline_is_that_of_all_plans_of_a_budget(monkeypatch) -> None:
    seen = []
    plan = compiler.plan

    def noted(module: lowtide.Module, options: PlanOptions) -> compiler.ModulePlan:
        seen.append(options.search.deadline)
        return plan(module, options)

    from lowtide.budgeting import planner

    monkeypatch.setattr(planner, "plan_module", noted)
    module = parse_hlo(str(training_step()))
    with pytest.raises(lowtide.OverMemoryError):
        planner.plan_within(module, 1, PlanOptions(search=SearchOptions(Effort.FAST, 1e6)))
    assert len(seen) > 1 and isinstance(seen[0], Deadline) and len(set(map(id, seen))) == 1


@pytest.mark.parametrize("is_native", [False, True])
def test_a_budget_whose_search_a_deadline_ends_says_so(monkeypatch, is_native) -> None:
    """Also where the plan that is taken was made before."""
    from lowtide.backends.build import build
    from lowtide.backends.cpu import CpuBackend
    from lowtide.budgeting import planner

    deadline, module = Deadline(), parse_hlo(str(training_step()))

    def late(*_args: object) -> None:
        with deadline.held():
            deadline.interrupt()

    monkeypatch.setattr(planner, "variant_of", late)
    most = compiler.plan(module).report.ladder.arena_bytes
    options = PlanOptions(search=SearchOptions(deadline=deadline))
    if is_native:
        plan = build(module, CpuBackend(1), options, most * 3 // 4).plan
    else:
        plan = planner.plan_within(module, most * 3 // 4, options)
    assert deadline.passed
    assert plan.report.caveats[0].startswith("Ctrl-C ended the search")


def test_observers_have_the_deadline_of_the_plan(monkeypatch) -> None:
    seen = []
    optimize, plan = compiler.optimize, compiler.plan

    def noted(module: lowtide.Module, options: PlanOptions, *rest: object) -> int:
        seen.append(options.search.deadline)
        return optimize(module, options, *rest)

    def planned(module: lowtide.Module, options: PlanOptions, *, late: bool) -> compiler.ModulePlan:
        seen.append(options.search.deadline)
        return plan(module, options, late=late)

    monkeypatch.setattr(compiler, "optimize", noted)
    monkeypatch.setattr("lowtide.backends.build.plan", planned)
    compile_anew(example(NAMES[1]), Options(deadline=1e6), observers=(Watch(),))
    assert len(seen) > 1 and isinstance(seen[0], Deadline) and len(set(map(id, seen))) == 1


@pytest.mark.parametrize("asked", range(0, 12, 2))
def test_observers_see_what_was_chosen_before_the_deadline(monkeypatch, asked) -> None:
    """Each time it is asked for, the deadline is nearer: it is over at any place of the search."""
    texts = []
    for observers in ((), (Watch(),)):
        left = iter([False] * asked)
        monkeypatch.setattr(Deadline, "passed", property(lambda _, left=left: next(left, True)))
        module = parse_hlo(COSTLY)
        proposals.optimize(module, PlanOptions("scheduled", memory_priority=0.5), observers)
        texts.append(str(module))
    assert texts[0] == texts[1]


def test_the_remark_tells_what_ended_the_search() -> None:
    assert Deadline().remarks() == []
    assert Deadline(0).remarks() == [CAVEAT]
    deadline = Deadline(0)
    with deadline.held():
        deadline.interrupt()
    assert deadline.remarks() == [CAVEAT.replace("a deadline", "Ctrl-C")]
