"""Modules that are optimized as a whole: their loops stay as they are written."""

from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.objects import environment
from lowtide.llvm.target import host_target

ADDING = """define void @add(ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %head ]
  %from = getelementptr float, ptr %x, i64 %i
  %value = load float, ptr %from, align 4
  %sum = fadd float %value, 1.0
  %to = getelementptr float, ptr %y, i64 %i
  store float %sum, ptr %to, align 4
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %head, label %done
done:
  ret void
}
"""


def test_llvm_makes_no_vectors_of_loops():
    compiler = KernelCompiler(host_target())
    vectors = compiler._compiled(ADDING, is_object=1, level=1, vectorizes_loops=True)
    assert len(compiler.object_code(ADDING, whole=True)) < len(vectors)


def test_what_loops_become_is_part_of_the_key(monkeypatch):
    target = host_target()
    before = environment(target)
    environment.cache_clear()
    monkeypatch.setattr("lowtide.llvm.objects.VECTORIZES_LOOPS", True)
    after = environment(target)
    environment.cache_clear()
    assert before != after
