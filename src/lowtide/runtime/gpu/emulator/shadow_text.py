"""The watch on global memory as functions of the host: each access of a kernel goes through one.

Each byte of an allocation has words of 64 bits: who wrote it last, and who has read it since, of up
to three pieces of work that do not come after each other. A word is the number of the work in
streams (20 bits), the block (18), how many barriers the block had passed (14), the thread (10), and
what other readers of the same work there were: some of other blocks, some of other threads between
the same barriers (a bit each). An access races with an earlier one if one of them writes, and they
are of different blocks of one launch, or of different threads of a block between the same barriers,
or of two pieces of work neither of which waits for the other.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from lowtide.runtime.gpu.emulator.state import StateField, field


class WatchedFault(IntEnum):
    """What an access did that a device leaves undefined."""

    NONE = 0
    NOWHERE = 1
    MISALIGNED = 2
    RACE = 3


WORK_SHIFT, BLOCK_SHIFT, PASSED_SHIFT, THREAD_SHIFT = 44, 26, 12, 2
"""Where the parts of a word begin."""

WORDS: Final = 4
"""Words of a byte: its last writer, and readers."""

MOST_WORK: Final = 1 << 20
"""Pieces of work that have numbers of their own."""

STACK_REACH: Final = 1 << 20
"""How far from the frame of a function a thread's own variables lie, in bytes."""

_SUPPORT: Final = f"""
@gpu_nowhere = internal global [256 x i8] zeroinitializer, align 64
declare ptr @llvm.frameaddress.p0(i32 immarg)
define internal i64 @gpu_me() alwaysinline {{
  %work = load i64, ptr {field(StateField.WORK)}
  %block = load i64, ptr {field(StateField.BLOCK)}
  %passed = load i64, ptr {field(StateField.PASSED)}
  %thread = load i64, ptr {field(StateField.THREAD)}
  %block.low = and i64 %block, {(1 << 18) - 1}
  %passed.low = and i64 %passed, {(1 << 14) - 1}
  %w = shl i64 %work, {WORK_SHIFT}
  %b = shl i64 %block.low, {BLOCK_SHIFT}
  %p = shl i64 %passed.low, {PASSED_SHIFT}
  %t = shl i64 %thread, {THREAD_SHIFT}
  %wb = or i64 %w, %b
  %pt = or i64 %p, %t
  %all = or i64 %wb, %pt
  ret i64 %all
}}
define internal void @gpu_fault(i64 %kind, i64 %at, i64 %other) noinline {{
  %known = load i64, ptr {field(StateField.FAULT)}
  %first = icmp eq i64 %known, 0
  br i1 %first, label %keep, label %done
keep:
  %me = call i64 @gpu_me()
  store i64 %kind, ptr {field(StateField.FAULT)}
  store i64 %at, ptr {field(StateField.FAULT_AT)}
  store i64 %other, ptr {field(StateField.FAULT_OTHER)}
  store i64 %me, ptr {field(StateField.FAULT_ME)}
  br label %done
done:
  ret void
}}
define internal i1 @gpu_conflict(i64 %other, i64 %me) alwaysinline {{
  %none = icmp eq i64 %other, 0
  br i1 %none, label %no, label %some
some:
  %change = xor i64 %other, %me
  %work.change = lshr i64 %change, {WORK_SHIFT}
  %same = icmp eq i64 %work.change, 0
  br i1 %same, label %launch, label %works
launch:
  %block.change = lshr i64 %change, {BLOCK_SHIFT}
  %several.blocks = and i64 %other, 2
  %blocks = or i64 %block.change, %several.blocks
  %other.block = icmp ne i64 %blocks, 0
  br i1 %other.block, label %yes, label %block
block:
  %passed.change = lshr i64 %change, {PASSED_SHIFT}
  %passed = icmp ne i64 %passed.change, 0
  br i1 %passed, label %no, label %between
between:
  %thread.change = lshr i64 %change, {THREAD_SHIFT}
  %several.threads = and i64 %other, 1
  %threads = or i64 %thread.change, %several.threads
  %other.thread = icmp ne i64 %threads, 0
  ret i1 %other.thread
works:
  %number = lshr i64 %other, {WORK_SHIFT}
  %streams = load ptr, ptr {field(StateField.STREAMS)}
  %stream.at = getelementptr i8, ptr %streams, i64 %number
  %stream = load i8, ptr %stream.at
  %place = zext i8 %stream to i64
  %clock = load ptr, ptr {field(StateField.CLOCK)}
  %seen.at = getelementptr i64, ptr %clock, i64 %place
  %seen = load i64, ptr %seen.at
  %unordered = icmp ult i64 %seen, %number
  ret i1 %unordered
yes:
  ret i1 true
no:
  ret i1 false
}}
define internal ptr @gpu_global(ptr %at, i64 %nbytes, i64 %align, i64 %is_write) noinline {{
entry:
  %a = ptrtoint ptr %at to i64
  %end = add i64 %a, %nbytes
  %table = load ptr, ptr {field(StateField.RANGES)}
  %count = load i64, ptr {field(StateField.RANGE_COUNT)}
  %watched = icmp ne i64 %count, 0
  br i1 %watched, label %look, label %own
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %other ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %test, label %outside
test:
  %row = getelementptr [3 x i64], ptr %table, i64 %i
  %first = load i64, ptr %row
  %last.at = getelementptr i64, ptr %row, i64 1
  %last = load i64, ptr %last.at
  %above = icmp uge i64 %a, %first
  %below = icmp ule i64 %end, %last
  %in = and i1 %above, %below
  br i1 %in, label %found, label %other
other:
  %i.next = add i64 %i, 1
  br label %look
outside:
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %f = ptrtoint ptr %frame to i64
  %distance = sub i64 %a, %f
  %shifted = add i64 %distance, {STACK_REACH}
  %is.stack = icmp ult i64 %shifted, {2 * STACK_REACH}
  br i1 %is.stack, label %own, label %constants
constants:
  %c = phi i64 [ 0, %outside ], [ %c.next, %next ]
  %c.more = icmp ult i64 %c, CONSTANTS
  br i1 %c.more, label %constant, label %nowhere
constant:
  %c.row = getelementptr [2 x ptr], ptr @gpu_constants, i64 %c
  %c.first = load ptr, ptr %c.row
  %c.last.at = getelementptr ptr, ptr %c.row, i64 1
  %c.last = load ptr, ptr %c.last.at
  %cf = ptrtoint ptr %c.first to i64
  %cl = ptrtoint ptr %c.last to i64
  %c.above = icmp uge i64 %a, %cf
  %c.below = icmp ule i64 %end, %cl
  %c.in = and i1 %c.above, %c.below
  br i1 %c.in, label %own, label %next
next:
  %c.next = add i64 %c, 1
  br label %constants
nowhere:
  call void @gpu_fault(i64 {int(WatchedFault.NOWHERE)}, i64 %a, i64 %nbytes)
  ret ptr @gpu_nowhere
own:
  ret ptr %at
found:
  %mask = sub i64 %align, 1
  %rest = and i64 %a, %mask
  %aligned = icmp eq i64 %rest, 0
  br i1 %aligned, label %words, label %crooked
crooked:
  call void @gpu_fault(i64 {int(WatchedFault.MISALIGNED)}, i64 %a, i64 %align)
  ret ptr @gpu_nowhere
words:
  %shadow.at = getelementptr i64, ptr %row, i64 2
  %shadow = load ptr, ptr %shadow.at
  %watched.words = icmp ne ptr %shadow, null
  br i1 %watched.words, label %start, label %own
start:
  %offset = sub i64 %a, %first
  %cells = getelementptr [{WORDS} x i64], ptr %shadow, i64 %offset
  %me = call i64 @gpu_me()
  %my.work = lshr i64 %me, {WORK_SHIFT}
  br label %byte
byte:
  %n = phi i64 [ 0, %start ], [ %n.next, %marked ]
  %cell = getelementptr [{WORDS} x i64], ptr %cells, i64 %n
  %writer = load i64, ptr %cell
  %bad.writer = call i1 @gpu_conflict(i64 %writer, i64 %me)
  br i1 %bad.writer, label %race.writer, label %checked
race.writer:
  call void @gpu_fault(i64 {int(WatchedFault.RACE)}, i64 %a, i64 %writer)
  br label %checked
checked:
  %writes = icmp ne i64 %is_write, 0
  br i1 %writes, label %write, label %mine
write:
  %w = phi i64 [ 1, %checked ], [ %w.next, %cleared ]
  %w.at = getelementptr i64, ptr %cell, i64 %w
  %reader = load i64, ptr %w.at
  %bad.reader = call i1 @gpu_conflict(i64 %reader, i64 %me)
  br i1 %bad.reader, label %race.reader, label %cleared
race.reader:
  call void @gpu_fault(i64 {int(WatchedFault.RACE)}, i64 %a, i64 %reader)
  br label %cleared
cleared:
  store i64 0, ptr %w.at
  %w.next = add i64 %w, 1
  %w.more = icmp ult i64 %w.next, {WORDS}
  br i1 %w.more, label %write, label %written
written:
  store i64 %me, ptr %cell
  br label %marked
mine:
  %k = phi i64 [ 1, %checked ], [ %k.next, %not.mine ]
  %k.at = getelementptr i64, ptr %cell, i64 %k
  %known = load i64, ptr %k.at
  %known.work = lshr i64 %known, {WORK_SHIFT}
  %is.mine = icmp eq i64 %known.work, %my.work
  br i1 %is.mine, label %again, label %not.mine
not.mine:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, {WORDS}
  br i1 %k.more, label %mine, label %free
free:
  %slot = phi i64 [ 1, %not.mine ], [ %slot.next, %taken ]
  %slot.at = getelementptr i64, ptr %cell, i64 %slot
  %there = load i64, ptr %slot.at
  %late = call i1 @gpu_conflict(i64 %there, i64 %me)
  br i1 %late, label %taken, label %first.of.work
taken:
  %slot.next = add i64 %slot, 1
  %slot.more = icmp ult i64 %slot.next, {WORDS}
  br i1 %slot.more, label %free, label %no.room
no.room:
  %one.at = getelementptr i64, ptr %cell, i64 1
  store i64 %me, ptr %one.at
  br label %marked
first.of.work:
  store i64 %me, ptr %slot.at
  br label %marked
again:
  %change = xor i64 %known, %me
  %block.change = lshr i64 %change, {BLOCK_SHIFT}
  %passed.change = lshr i64 %change, {PASSED_SHIFT}
  %thread.change = lshr i64 %change, {THREAD_SHIFT}
  %same.block = icmp eq i64 %block.change, 0
  %same.passed = icmp eq i64 %passed.change, 0
  %same.thread = icmp eq i64 %thread.change, 0
  %old.blocks = and i64 %known, 2
  %old.threads = and i64 %known, 1
  %blocks = select i1 %same.block, i64 %old.blocks, i64 2
  %several.threads = select i1 %same.thread, i64 %old.threads, i64 1
  %threads = select i1 %same.passed, i64 %several.threads, i64 0
  %flags = or i64 %blocks, %threads
  %new.reader = or i64 %me, %flags
  store i64 %new.reader, ptr %k.at
  br label %marked
marked:
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, %nbytes
  br i1 %n.more, label %byte, label %own
}}
define internal ptr @gpu_lanes(
    ptr %at, i64 %nbytes, i64 %lanes, i64 %mask, i64 %align, i64 %is_write) noinline {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %bits = lshr i64 %mask, %i
  %bit = trunc i64 %bits to i1
  br i1 %bit, label %note, label %after
note:
  %far = mul i64 %i, %nbytes
  %place = getelementptr i8, ptr %at, i64 %far
  %seen = call ptr @gpu_global(ptr %place, i64 %nbytes, i64 %align, i64 %is_write)
  br label %after
after:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %lanes
  br i1 %more, label %lane, label %done
done:
  %fault = load i64, ptr {field(StateField.FAULT)}
  %fine = icmp eq i64 %fault, 0
  %result = select i1 %fine, ptr %at, ptr @gpu_nowhere
  ret ptr %result
}}
"""

_CONSTANT: Final = re.compile(
    r"^@(?P<name>[\w.]+) = (?:\w+ )*(?:constant|global) (?P<type>\[[^]]+\]|<[^>]+>|\w+) ",
    re.MULTILINE,
)


def watch_support(text: str) -> str:
    """Return the functions that a watched module calls, and where its own constants lie."""
    found = [x for x in _CONSTANT.finditer(text) if "addrspace(3)" not in x[0]]
    rows = [
        f"[2 x ptr] [ptr @{x['name']}, ptr getelementptr ({x['type']}, ptr @{x['name']}, i64 1)]"
        for x in found
    ]
    whole = f"[{len(rows)} x [2 x ptr]]"
    table = f"@gpu_constants = internal constant {whole} [{', '.join(rows)}]"
    return f"{table}\n{_SUPPORT.replace('CONSTANTS', str(len(rows)))}"
