"""Facts of the processor: the same from the store as from LLVM, asked for again where damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.architecture import ROOT

from lowtide.files.object_cache import ObjectCache
from lowtide.llvm import host
from lowtide.llvm.host import HostFacts, host_facts, keep_facts
from lowtide.llvm.target import Target, lacking, restricted

FEW = HostFacts("x86_64-unknown-linux-gnu", "a-processor", ("avx2", "fma"), "1 (2, 3, 4)")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often LLVM was asked; the facts of this process are forgotten before and after."""
    times: list[int] = []
    before = list(host._STORES)

    def ask() -> HostFacts:
        times.append(1)
        return FEW

    monkeypatch.setattr(host, "_asked", ask)
    host_facts.cache_clear()
    yield times
    host._STORES[:] = before
    host_facts.cache_clear()


def anew(store: Callable[[], ObjectCache]) -> HostFacts:
    keep_facts(store)
    host_facts.cache_clear()
    return host_facts()


def test_another_process_takes_facts_from_the_store(tmp_path: Path, asked: list[int]) -> None:
    cache = ObjectCache(tmp_path / "hosts")
    assert [anew(lambda: cache) for _ in range(3)] == [FEW] * 3
    assert len(asked) == 1
    assert len(list((tmp_path / "hosts").glob("*/*"))) == 1


@pytest.mark.parametrize("planted", [b"", b"[]", b"no json", json.dumps([1, 2, 3]).encode()])
def test_facts_that_cannot_be_read_are_asked_for(
    tmp_path: Path, asked: list[int], planted: bytes
) -> None:
    cache = ObjectCache(tmp_path / "hosts")
    anew(lambda: cache)
    (path,) = (tmp_path / "hosts").glob("*/*")
    cache.put(path.parent.name + path.name, planted)
    assert anew(lambda: cache) == FEW
    assert len(asked) == 2


def test_facts_that_others_may_write_are_not_believed(tmp_path: Path, asked: list[int]) -> None:
    cache = ObjectCache(tmp_path / "hosts")
    anew(lambda: cache)
    (path,) = (tmp_path / "hosts").glob("*/*")
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="not used as a cache"):
        assert anew(lambda: cache) == FEW
    assert len(asked) == 2


def test_without_a_store_or_a_key_llvm_is_asked(
    tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    host._STORES.clear()
    assert host_facts() == FEW
    monkeypatch.setattr(host, "_processor", lambda: "")
    cache = ObjectCache(tmp_path / "hosts")
    assert [anew(lambda: cache) for _ in range(2)] == [FEW] * 2
    assert len(asked) == 3
    assert not (tmp_path / "hosts").exists()


def test_the_key_tells_processors_and_libraries_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {host._key()}
    for name in ("_processor", "_library"):
        with monkeypatch.context() as changed:
            changed.setattr(host, name, lambda: "something else")
            keys.add(host._key())
    assert len(keys) == 3 and "" not in keys


def test_facts_are_those_that_llvm_tells(tmp_path: Path) -> None:
    code = (
        "import lowtide.backends.kept\n"
        "from lowtide.llvm.host import host_facts, _asked\n"
        "from lowtide.llvm.entry_points import is_loaded\n"
        "found, was_loaded = host_facts(), is_loaded()\n"
        "assert found == _asked()\n"
        "print(was_loaded)"
    )
    environment = {**os.environ, "LOWTIDE_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    said = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [x.strip() for x in said] == ["True", "False"]


def test_a_feature_that_is_left_alone_is_not_lacking(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_STORES", [])
    host_facts.cache_clear()
    older = Target(FEW.triple, FEW.cpu, ("avx2", "fma", "sse4a"), 32)
    taken = Target(FEW.triple, FEW.cpu, ("avx2", "fma"), 32)
    assert lacking(older, taken) == ["sse4a"]
    monkeypatch.setattr(host, "_asked", lambda: replace(FEW, features=older.features))
    host_facts.cache_clear()
    assert lacking(older, taken) == []
    assert lacking(replace(older, features=("avx512f",)), taken) == ["avx512f"]


def test_a_processor_without_newer_features_is_its_own_older_one() -> None:
    """Else tests that are asked once there would leave out code of another processor's name."""
    old = Target(FEW.triple, FEW.cpu, FEW.features, 32)
    assert restricted(old, "avx2") is old
    new = replace(old, features=("avx2", "avx512f", "fma"), vector_bytes=64)
    assert restricted(new, "avx2") == replace(old, cpu="x86-64-v3")
