"""Machine code for memory that no call uses: it waits for the next one, or goes to the system.

What waits is the pages of results that are gone, which never come to more than is in use and
`LEAST_KEPT` bytes, and those of the arena. They go where a device would otherwise have more
resident than it ever used at once, and where no call comes for a while.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.pjrt.blocks import Queue, WaitingHome
from lowtide.pjrt.native_objects import add, get, go_unless, is_null, place, put
from lowtide.runtime.cpu.system import System

LEAST_KEPT: Final = 32 << 20
"""Bytes of results' pages that may wait beyond what is in use."""

LARGE_USE: Final = 16 << 20
"""Where so many bytes come into use at once LLVM's pages go: the system needs about as long to read
these from the file again as to give so many new ones."""

SLACK_SHIFT: Final = 5
"""One part in so many powers of two of the most that was in use may be resident beyond it."""

UNMAP: Final = external("munmap", "i32", "ptr", "i64")
_ADVISE: Final = external("madvise", "i32", "ptr", "i64", "i32")
_TRIM: Final = external("malloc_trim", "i32", "i64")
_NOT_NEEDED: Final = 4


def guard_function(system: System) -> Function:
    """Write `void guard(ptr queue)`, which takes the lock of the homes of a queue."""
    f = Function("guard", parameters(queue="ptr"), linkage="internal")
    word = place(f, Queue, "%queue", "guard")
    f.do("br label %again")
    f.label("again")
    pair = f.op(f"cmpxchg ptr {word}, i64 0, i64 1 acquire monotonic")
    f.do(f"br i1 {f.op(f'extractvalue {{ i64, i1 }} {pair}, 1')}, label %done, label %busy")
    f.label("busy")
    system.give_way(f)
    f.do("br label %again")
    f.label("done")
    return f


def _unguard(f: Function) -> None:
    f.do(f"store atomic i64 0, ptr {place(f, Queue, '%queue', 'guard')} release, align 8")


def _seen(f: Function, name: str) -> str:
    """Load a word of the queue that other threads write."""
    return f.op(f"load atomic i64, ptr {place(f, Queue, '%queue', name)} seq_cst, align 8")


def notice_function(signal: Function) -> Function:
    """Write `void notice(ptr queue)`: memory waits, and the worker is to look after it."""
    f = Function("notice", parameters(queue="ptr"))
    with f.when(f.compare("eq", _seen(f, "watched"), 0)):
        f.call(signal, ["%queue"])
    return f


def unsettle_function(notice: Function) -> Function:
    """Write `void unsettle(ptr queue)`: the C library may have memory that nobody uses."""
    f = Function("unsettle", parameters(queue="ptr"))
    word = place(f, Queue, "%queue", "unsettled")
    f.do(f"store atomic i64 1, ptr {word} seq_cst, align 8")
    f.call(notice, ["%queue"])
    return f


def _most_kept(f: Function) -> Integer:
    return f.add(_seen(f, "used"), LEAST_KEPT)


def keep_home_function(guard: Function, notice: Function) -> Function:
    """Write `void keep_home(ptr queue, ptr home, i64 pages, i64 inner, i64 inner_bytes)`.

    The memory of a result that is gone waits for the next one, or goes to the system where enough
    does.
    """
    given = parameters(queue="ptr", home="ptr", pages="i64", inner="i64", inner_bytes="i64")
    f = Function("keep_home", given, linkage="internal")
    most = _most_kept(f)
    f.call(guard, ["%queue"])
    come = f.add(_seen(f, "idle"), "%pages")
    go_unless(f, f.compare("sle", come, most), "full")
    put(f, WaitingHome, "%home", "next", get(f, Queue, "%queue", "homes", "ptr"), "ptr")
    for name in ("pages", "inner", "inner_bytes"):
        put(f, WaitingHome, "%home", name, f"%{name}")
    put(f, Queue, "%queue", "homes", "%home", "ptr")
    add(f, Queue, "%queue", "idle", "%pages")
    peak = place(f, Queue, "%queue", "peak_pool")
    f.op(f"atomicrmw max ptr {peak}, i64 {f.add(come, _seen(f, 'mapped'))} monotonic")
    _unguard(f)
    f.call(notice, ["%queue"])
    f.do("ret void")
    f.label("full")
    _unguard(f)
    f.call(UNMAP, ["%home", "%pages"])
    return f


def find_home_function(guard: Function) -> Function:
    """Write `ptr find_home(ptr queue, i64 inner_bytes)`: one with as many that may move, or null.

    It no longer waits.
    """
    f = Function("find_home", parameters(queue="ptr", inner_bytes="i64"), "ptr", linkage="internal")
    go_unless(f, f.compare("ne", _seen(f, "idle"), 0), "none")
    f.call(guard, ["%queue"])
    link = f.stack("ptr", 1, 8)
    f.store("ptr", place(f, Queue, "%queue", "homes"), link, 8)
    f.do("br label %look")
    f.label("look")
    at = f.load("ptr", link, 8)
    home = f.load("ptr", at, 8)
    f.do(f"br i1 {is_null(f, home)}, label %end, label %some")
    f.label("some")
    fits = f.compare("eq", get(f, WaitingHome, home, "inner_bytes"), "%inner_bytes")
    f.do(f"br i1 {fits}, label %found, label %on")
    f.label("on")
    f.store("ptr", place(f, WaitingHome, home, "next"), link, 8)
    f.do("br label %look")
    f.label("found")
    f.store("ptr", get(f, WaitingHome, home, "next", "ptr"), at, 8)
    add(f, Queue, "%queue", "idle", f.sub(0, get(f, WaitingHome, home, "pages")))
    _unguard(f)
    f.do(f"ret ptr {home}")
    f.label("end")
    _unguard(f)
    f.do("br label %none")
    f.label("none")
    f.ret("ptr", "null")
    return f


def drop_homes_function(guard: Function) -> Function:
    """Write `void drop_homes(ptr queue, i64 most)`: homes go until so many bytes wait at most."""
    f = Function("drop_homes", parameters(queue="ptr", most="i64"), linkage="internal")
    f.do("br label %look")
    f.label("look")
    go_unless(f, f.compare("sgt", _seen(f, "idle"), "%most"), "end")
    f.call(guard, ["%queue"])
    home = get(f, Queue, "%queue", "homes", "ptr")
    f.do(f"br i1 {is_null(f, home)}, label %none, label %some")
    f.label("some")
    pages = get(f, WaitingHome, home, "pages")
    put(f, Queue, "%queue", "homes", get(f, WaitingHome, home, "next", "ptr"), "ptr")
    add(f, Queue, "%queue", "idle", f.sub(0, pages))
    _unguard(f)
    f.call(UNMAP, [home, pages])
    f.do("br label %look")
    f.label("none")
    _unguard(f)
    f.do("br label %end")
    f.label("end")
    return f


def drop_pages_function() -> Function:
    """Write `void drop_pages(ptr queue, ptr arena, i64 kept)`.

    The pages of an arena that its caller has go to the system, but for those of its first bytes.
    """
    f = Function("drop_pages", parameters(queue="ptr", arena="ptr", kept="i64"), linkage="internal")
    more = f.sub(_seen(f, "extent"), "%kept")
    with f.when(f.compare("sgt", more, 0)):
        f.call(_ADVISE, [f.gep("%arena", "%kept"), more, _NOT_NEEDED])
        word = place(f, Queue, "%queue", "extent")
        f.do(f"store atomic i64 %kept, ptr {word} seq_cst, align 8")
        put(f, Queue, "%queue", "hollow", 0)
    return f


def drop_arena_function(drop_pages: Function) -> Function:
    """Write `void drop_arena(ptr queue)`: the pages of an arena that no run has."""
    f = Function("drop_arena", parameters(queue="ptr"), linkage="internal")
    home = place(f, Queue, "%queue", "arena")
    arena = f.op(f"atomicrmw xchg ptr {home}, ptr null acquire")
    with f.when(f.op(f"icmp ne ptr {arena}, null")):
        f.call(drop_pages, ["%queue", arena, 0])
        f.do(f"store atomic ptr {arena}, ptr {home} release, align 8")
    return f


def use_extent_function(drop_pages: Function, notice: Function) -> Function:
    """Write `void use_extent(ptr queue, ptr arena, i64 needed)`, ahead of a run in an arena.

    Pages behind those that the run needs go where more would be resident than ever was in use.
    """
    f = Function(
        "use_extent", parameters(queue="ptr", arena="ptr", needed="i64"), linkage="internal"
    )
    extent = _seen(f, "extent")
    put(f, Queue, "%queue", "hollow", 0)
    behind = f.compare("sgt", extent, "%needed")
    f.do(f"br i1 {behind}, label %more, label %less")
    f.label("more")
    come = f.add(f.add(_seen(f, "used"), extent), _seen(f, "idle"))
    with f.when(f.compare("sgt", come, most_resident(f, _seen(f, "peak")))):
        f.call(drop_pages, ["%queue", "%arena", "%needed"])
    f.do("br label %end")
    f.label("less")
    word = place(f, Queue, "%queue", "extent")
    f.do(f"store atomic i64 %needed, ptr {word} seq_cst, align 8")
    f.call(notice, ["%queue"])
    f.do("br label %end")
    f.label("end")
    return f


def most_resident(f: Function, peak: Integer) -> Integer:
    """Return how many bytes may be resident, in use or not, where that many were in use at once."""
    return f.add(f.add(peak, f.op(f"ashr i64 {peak}, {SLACK_SHIFT}")), 1 << 20)


def make_room_function(drop_homes: Function, drop_arena: Function) -> Function:
    """Write `void make_room(ptr queue, i64 used, i64 peak)`, where so many bytes come into use.

    What waits goes as far as it would have more resident than was ever in use.
    """
    f = Function("make_room", parameters(queue="ptr", used="i64", peak="i64"), linkage="internal")
    left = f.sub(most_resident(f, f.max("%peak", "%used")), "%used")
    idle, arena = _seen(f, "idle"), f.compare("ne", _seen(f, "arena"), 0)
    extent = f.select(arena, "i64", f.sub(_seen(f, "extent"), _seen(f, "hollow")), 0)
    with f.when(f.compare("sgt", f.add(idle, extent), left)):
        f.call(drop_homes, ["%queue", f.max(f.sub(left, extent), 0)])
        with f.when(f.compare("sgt", f.add(_seen(f, "idle"), extent), left)):
            f.call(drop_arena, ["%queue"])
    return f


def fall_function(drop_homes: Function) -> Function:
    """Write `void fall(ptr queue)`: less is in use, and so less may wait."""
    f = Function("fall", parameters(queue="ptr"), linkage="internal")
    most = _most_kept(f)
    with f.when(f.compare("sgt", _seen(f, "idle"), most)):
        f.call(drop_homes, ["%queue", most])
    return f


def forget_code_function() -> Function:
    """Write `void forget_code(ptr queue, i64 nbytes)`, where so many bytes come into use.

    LLVM's pages go if these are many and something was compiled since they last went.
    """
    f = Function("forget_code", parameters(queue="ptr", nbytes="i64"), linkage="internal")
    with f.when(f.compare("sge", "%nbytes", LARGE_USE)):
        word = place(f, Queue, "%queue", "compiled")
        before = f.op(f"atomicrmw xchg ptr {word}, i64 0 seq_cst")
        with f.when(f.compare("ne", before, 0)):
            _drop_code(f)
    return f


def _drop_code(f: Function) -> None:
    text, nbytes = get(f, Queue, "%queue", "text", "ptr"), get(f, Queue, "%queue", "text_bytes")
    f.call(_ADVISE, [text, nbytes, _NOT_NEEDED])


def settle_function(drop_homes: Function, drop_arena: Function) -> Function:
    """Write `void settle(ptr queue)`: all that waits goes to the system, Python's at its turn."""
    f = Function("settle", parameters(queue="ptr"))
    word = place(f, Queue, "%queue", "unsettled")
    f.do(f"store atomic i64 0, ptr {word} seq_cst, align 8")
    f.call(drop_homes, ["%queue", 0])
    f.call(drop_arena, ["%queue"])
    f.call(_TRIM, [0])
    _drop_code(f)
    for name in ("rested", "sweep"):
        put(f, Queue, "%queue", name, 1)
    return f
