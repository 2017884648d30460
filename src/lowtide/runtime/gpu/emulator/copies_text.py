"""Copies to shared memory that go on (`cp.async`) as functions of the host.

A copy is kept in a list of its thread, and made once the thread waits for its group, as late as it
may be. It counts as a write when it begins, at each barrier that it goes on over, and when it ends.
"""

from __future__ import annotations

from typing import Final

from lowtide.runtime.gpu.emulator.state import StateField, field

MOST_COPIES: Final = 512
"""Copies of a thread that go on at once, at most."""

COPY_WORDS: Final = 3
"""Words of a copy: where to, where from, and 32 times the number of its group with its bytes."""

LIST_WORDS: Final = 2 + COPY_WORDS * MOST_COPIES
"""Words of a thread's list: how many copies go on, how many groups were made, and the copies."""

COPY_FUNCTIONS: Final = {
    "llvm.nvvm.cp.async.cg.shared.global.16": "gpu_copy",
    "llvm.nvvm.cp.async.cg.shared.global.16.s": "gpu_copy_part",
    "llvm.nvvm.cp.async.commit.group": "gpu_copies_commit",
    "llvm.nvvm.cp.async.wait.group": "gpu_copies_wait",
}

COPY_SUPPORT: Final = f"""
define internal ptr @gpu_copies() {{
  %t = load i64, ptr {field(StateField.THREAD)}
  %lists = load ptr, ptr {field(StateField.COPIES)}
  %list = getelementptr [{LIST_WORDS} x i64], ptr %lists, i64 %t
  ret ptr %list
}}
define internal void @gpu_copy(ptr %to, ptr %from) {{
  call void @gpu_copy_part(ptr %to, ptr %from, i32 16)
  ret void
}}
define internal void @gpu_copy_part(ptr %to, ptr %from, i32 %part) noinline {{
  call void @gpu_note(ptr %to, i64 16, i64 1, i64 16)
  %some = icmp ne i32 %part, 0
  %mask = zext i1 %some to i64
  %size = zext i32 %part to i64
  %seen = call ptr @gpu_lanes(ptr %from, i64 %size, i64 1, i64 %mask, i64 16, i64 0)
  %list = call ptr @gpu_copies()
  %count = load i64, ptr %list
  %next = add i64 %count, 1
  store i64 %next, ptr %list
  %fits = icmp ult i64 %count, {MOST_COPIES}
  br i1 %fits, label %keep, label %done
keep:
  %groups.at = getelementptr i64, ptr %list, i64 1
  %groups = load i64, ptr %groups.at
  %number = mul i64 %groups, 32
  %what = or i64 %number, %size
  %first = mul i64 %count, {COPY_WORDS}
  %place = add i64 %first, 2
  %at = getelementptr i64, ptr %list, i64 %place
  %from.at = getelementptr i64, ptr %at, i64 1
  %what.at = getelementptr i64, ptr %at, i64 2
  store ptr %to, ptr %at
  store ptr %seen, ptr %from.at
  store i64 %what, ptr %what.at
  br label %done
done:
  ret void
}}
define internal void @gpu_copies_commit() {{
  %list = call ptr @gpu_copies()
  %groups.at = getelementptr i64, ptr %list, i64 1
  %groups = load i64, ptr %groups.at
  %next = add i64 %groups, 1
  store i64 %next, ptr %groups.at
  ret void
}}
define internal void @gpu_copies_wait(i32 %pending) noinline {{
entry:
  %list = call ptr @gpu_copies()
  %groups.at = getelementptr i64, ptr %list, i64 1
  %groups = load i64, ptr %groups.at
  %late = zext i32 %pending to i64
  %ended = sub i64 %groups, %late
  %count = load i64, ptr %list
  %copies = getelementptr i64, ptr %list, i64 2
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %kept = phi i64 [ 0, %entry ], [ %kept.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr [{COPY_WORDS} x i64], ptr %copies, i64 %i
  %from.at = getelementptr i64, ptr %at, i64 1
  %what.at = getelementptr i64, ptr %at, i64 2
  %to = load ptr, ptr %at
  %from = load ptr, ptr %from.at
  %what = load i64, ptr %what.at
  %group = lshr i64 %what, 5
  %is.ended = icmp slt i64 %group, %ended
  br i1 %is.ended, label %make, label %keep
make:
  call void @gpu_note(ptr %to, i64 16, i64 1, i64 16)
  %size = and i64 %what, 31
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 16, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  br label %next
keep:
  %new.at = getelementptr [{COPY_WORDS} x i64], ptr %copies, i64 %kept
  %new.from.at = getelementptr i64, ptr %new.at, i64 1
  %new.what.at = getelementptr i64, ptr %new.at, i64 2
  store ptr %to, ptr %new.at
  store ptr %from, ptr %new.from.at
  store i64 %what, ptr %new.what.at
  %one.more = add i64 %kept, 1
  br label %next
next:
  %kept.next = phi i64 [ %kept, %make ], [ %one.more, %keep ]
  %i.next = add i64 %i, 1
  br label %head
done:
  store i64 %kept, ptr %list
  ret void
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
