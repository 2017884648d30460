"""What is compiled once, at the same time, again, and forgotten."""

import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import pytest
from tests.support import HANG_SECONDS

from lowtide.client.compilation_cache import CompilationCache
from lowtide.ir import LowtideError


def test_threads_that_want_one_key_compile_it_once():
    cache, count, waiting = CompilationCache(), [], Barrier(8)
    release = Event()

    def compile_one():
        count.append(1)
        assert release.wait(HANG_SECONDS)
        return "program"

    def ask():
        waiting.wait(HANG_SECONDS)
        return cache.get_or_compile("key", compile_one)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        while not count:
            pass
        release.set()
        assert [x.result(HANG_SECONDS) for x in asked] == ["program"] * 8
    assert len(count) == 1
    assert (cache.statistics.misses, cache.statistics.hits) == (1, 7)


def test_different_keys_are_compiled_at_the_same_time():
    """Each compilation waits until the other one is running too."""
    cache, both = CompilationCache(), Barrier(2)

    def compile_one():
        return both.wait(HANG_SECONDS)

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(cache.get_or_compile, key, compile_one) for key in "ab"]
        assert sorted([x.result(HANG_SECONDS) for x in asked]) == [0, 1]


def test_an_error_reaches_all_who_wait_and_is_forgotten():
    cache, started, release, lock = CompilationCache(), Event(), Event(), Lock()
    attempts = []

    def fail():
        with lock:
            attempts.append(1)
        started.set()
        assert release.wait(HANG_SECONDS)
        raise LowtideError("cannot compile")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(cache.get_or_compile, "key", fail)
        assert started.wait(HANG_SECONDS)
        others = [pool.submit(cache.get_or_compile, "key", fail) for _ in range(2)]
        release.set()
        for asked in [first, *others]:
            with pytest.raises(LowtideError, match="cannot compile"):
                asked.result(HANG_SECONDS)
    failures = cache.statistics.failures
    assert failures == len(attempts)
    assert cache.get_or_compile("key", lambda: "program") == "program"
    assert cache.statistics.failures == failures


def test_when_the_compiling_thread_is_interrupted_the_next_one_goes_on():
    cache, started, release = CompilationCache(), Event(), Event()

    def interrupted():
        started.set()
        assert release.wait(HANG_SECONDS)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_compile, "key", interrupted)
        assert started.wait(HANG_SECONDS)
        second = pool.submit(cache.get_or_compile, "key", lambda: "program")
        release.set()
        assert isinstance(first.exception(HANG_SECONDS), KeyboardInterrupt)
        assert second.result(HANG_SECONDS) == "program"


def test_the_program_not_used_for_longest_goes_first():
    cache = CompilationCache(capacity=2)
    for key in ("a", "b", "a", "c"):
        cache.get_or_compile(key, lambda key=key: key.upper())
    assert [key in cache for key in "abc"] == [True, False, True]
    statistics = cache.statistics
    assert (statistics.misses, statistics.hits, statistics.evictions) == (3, 1, 1)
    assert statistics.seconds > 0
    cache.clear()
    assert len(cache) == 0
    with pytest.raises(ValueError, match="at least 1"):
        CompilationCache(0)


def test_what_is_being_compiled_while_the_cache_is_cleared_is_not_kept():
    cache = CompilationCache()

    def compile_one():
        cache.clear()
        return "program"

    assert cache.get_or_compile("key", compile_one) == "program"
    assert "key" not in cache


def test_a_program_that_needs_itself_is_an_error_and_no_deadlock():
    cache = CompilationCache()

    def compile_one():
        return cache.get_or_compile("key", lambda: "inner")

    with pytest.raises(LowtideError, match="asks for the same program"):
        cache.get_or_compile("key", compile_one)


def test_a_forked_process_compiles_what_a_thread_of_its_parent_was_compiling():
    cache = CompilationCache()
    started, release = Event(), Event()

    def compile_slowly():
        started.set()
        assert release.wait(HANG_SECONDS)
        return "parent"

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(cache.get_or_compile, "key", compile_slowly)
        assert started.wait(HANG_SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Other libraries warn of forks; none is called there.
            child = os.fork()
        if child == 0:
            signal.alarm(int(HANG_SECONDS))
            os._exit(0 if cache.get_or_compile("key", lambda: "child") == "child" else 1)
        release.set()
        assert os.waitpid(child, 0)[1] == 0
        assert other.result(HANG_SECONDS) == "parent"
