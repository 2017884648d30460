"""Options of the test run."""

import os
import signal
import tempfile
from pkgutil import resolve_name

import pytest
from hypothesis import HealthCheck, settings
from tests.support import HANG_SECONDS, asked_twice

from lowtide import options

_NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""No test fails because a machine is slow."""

settings.register_profile("repeatable", derandomize=True, **_NO_CLOCK)
settings.register_profile("fresh", **_NO_CLOCK)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples each time, but in the slow tests, which look for new ones.

    What is compiled is kept in a folder of this run, so that no test sees or fills the user's.
    Ctrl-C raises KeyboardInterrupt also where a shell started this run in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = tempfile.TemporaryDirectory(prefix="lowtide-tests-")
    os.environ["LOWTIDE_CACHE"] = folder.name
    config.add_cleanup(folder.cleanup)
    is_slow = "slow" in (config.option.markexpr or "").replace("not slow", "")
    settings.load_profile("fresh" if is_slow else "repeatable")
    # Which plan is found within a budget is up to the search, not to how fast a machine is.
    options.BUDGET_SECONDS = HANG_SECONDS
    name = config.getoption("--target")
    if name != "native":
        from lowtide.llvm import target

        target.pretend_host(target.restricted(target.host_target(), name))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a processor without AVX-512 would be asked twice; not from slow tests.

    There "avx2" and "native" are one target.
    """
    if "slow" in (config.option.markexpr or "").replace("not slow", ""):
        return
    from lowtide.llvm.target import host_target, restricted

    try:
        host, older = host_target(), restricted(host_target(), "avx2")
    except ValueError:
        return
    if host != older:
        return
    cases = {x.nodeid: getattr(x, "callspec", None) for x in items}
    twins = asked_twice({x: y.params for x, y in cases.items() if y is not None})
    config.hook.pytest_deselected(items=[x for x in items if x.nodeid in twins])
    items[:] = [x for x in items if x.nodeid not in twins]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=0.0,
        help="stop each fuzz test after this many seconds; 0 for no limit",
    )
    parser.addoption(
        "--target",
        default="native",
        choices=("native", "avx2"),
        help="the processor to make code for: this one, or this one with fewer features",
    )


@pytest.fixture
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    """How long a fuzz test may go on; infinity where there is no limit."""
    seconds = float(request.config.getoption("--fuzz-seconds"))
    return seconds or float("inf")


@pytest.fixture
def press(monkeypatch):
    """Have Ctrl-C pressed some times when a function is called first; it runs as ever."""

    def pressed(place: str, times: int = 1) -> None:
        function = resolve_name(place)
        left = [signal.SIGINT] * times

        def first(*args, **kwargs):
            while left:
                signal.raise_signal(left.pop())
            return function(*args, **kwargs)

        monkeypatch.setattr(place, first)

    return pressed
