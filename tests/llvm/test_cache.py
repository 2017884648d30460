"""The cache of objects: what was put is found, and nothing else ever is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.llvm.cache import SWEEP_EVERY, ObjectCache
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.objects import compile_modules, with_unique_names
from lowtide.llvm.target import host_target

KEY = "ab12cd"


def files(folder: Path) -> list[Path]:
    return sorted(x for x in folder.rglob("*") if x.is_file())


def test_bytes_are_found_again_by_another_cache_of_the_folder(tmp_path: Path) -> None:
    ObjectCache(tmp_path).put(KEY, b"code")
    assert ObjectCache(tmp_path).get(KEY) == b"code"
    assert ObjectCache(tmp_path).get("ab12ce") is None
    assert ObjectCache(None).get(KEY) is None


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 100, None])
def test_a_damaged_file_counts_as_none_and_is_written_again(
    tmp_path: Path, damage: bytes | None
) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"code" * 10)
    (path,) = files(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:20] + b"?" + data[21:] if damage is None else damage)
    assert cache.get(KEY) is None
    assert cache.through(KEY, lambda: b"new") == b"new"
    assert cache.get(KEY) == b"new"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file")
    assert cache.through(KEY, lambda: b"code") == b"code"
    assert cache.get(KEY) is None


def test_the_files_used_least_recently_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, most_bytes=3000)
    for number in range(5):
        cache.put(f"key{number}", bytes(984))
    for number, path in enumerate(files(tmp_path)):
        os.utime(path, ns=(number, number))
    assert cache.get("key0") is not None
    cache.sweep()
    assert [cache.get(f"key{x}") is not None for x in range(5)] == [True, False, False, True, True]


def test_the_folder_stays_about_as_large_as_it_may_be(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, most_bytes=20_000)
    for number in range(3 * SWEEP_EVERY):
        cache.put(f"key{number}", bytes(500))
    assert sum(x.stat().st_size for x in files(tmp_path)) < 20_000 + SWEEP_EVERY * 516


HAMMER = """
import sys
from pathlib import Path
from lowtide.llvm.cache import ObjectCache
cache, seed = ObjectCache(Path(sys.argv[1])), int(sys.argv[2])
for turn in range(200):
    key = f"key{(turn * seed) % 7}"
    found = cache.get(key)
    assert found is None or found == key.encode() * 5000
    cache.put(key, key.encode() * 5000)
"""


def test_processes_share_a_folder_and_never_see_half_a_file(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", HAMMER, str(tmp_path), seed] for seed in "235"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert not [x for x in files(tmp_path) if x.name.startswith(".new-")]


def module(number: int) -> str:
    fn = Function("f", parameters(p="ptr"))
    fn.store("i64", number, "%p", 8)
    return with_unique_names(module_text([fn]))[0]


def test_modules_get_names_of_their_own_and_equal_ones_the_same() -> None:
    assert module(1) == module(1)
    assert len({module(x).split("@")[1].split("(")[0] for x in range(5)}) == 5


def test_each_distinct_module_is_compiled_once_and_threads_make_no_difference(
    tmp_path: Path,
) -> None:
    texts = [module(x % 4) for x in range(10)]
    seen: list[tuple[int, int]] = []
    target = host_target()
    found = compile_modules(
        texts, target, ObjectCache(tmp_path), 3, lambda *done: seen.append(done)
    )
    assert len(seen) == 4 and seen[-1][1] == 4
    assert found == compile_modules(texts, target, ObjectCache(None), 1)
    assert found[0] == found[4] != found[1]
    assert len(files(tmp_path)) == 4
    seen.clear()
    again = ObjectCache(tmp_path)
    assert compile_modules(texts, target, again, 2, lambda *done: seen.append(done)) == found
    assert seen == []
