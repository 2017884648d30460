"""Modules that are optimized as a whole: their loops stay as they are written."""

from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.objects import environment
from lowtide.llvm.target import Target, host_target

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


def test_llvm_makes_no_vectors_of_loops_in_objects():
    compiler = KernelCompiler(host_target())
    code = compiler._compiled(ADDING, is_object=0, optimize=compiler._simplify).decode()
    vectors = compiler.whole_assembly(ADDING, 2)
    assert "addss" in code
    assert "addps" not in code
    assert "addps" in vectors


def test_functions_are_optimized_once_what_they_say_is_inlined():
    inner = "define internal float @two(float %x) nounwind alwaysinline {\n"
    inner += "  %y = fadd float %x, %x\n  ret float %y\n}\n"
    outer = "define float @four(float %x) {\n  %y = call float @two(float %x)\n"
    outer += "  %z = call float @two(float %y)\n  ret float %z\n}\n"
    compiler = KernelCompiler(host_target())
    code = compiler._compiled(inner + outer, is_object=0, optimize=compiler._simplify).decode()
    assert "two" not in code
    assert code.count("addss") == 2


def test_the_passes_are_part_of_the_key(monkeypatch):
    target = host_target()
    before = environment(target)
    environment.cache_clear()
    monkeypatch.setattr("lowtide.llvm.objects.WHOLE_PASSES", ("AlwaysInlinerPass",))
    after = environment(target)
    environment.cache_clear()
    assert before != after


def test_bits_of_vectors_are_not_taken_out_by_instructions_of_amd():
    lanes = ", ".join(["i32 4", *["i32 16"] * 3, *["i32 poison"] * 12])
    code = "define <16 x i8> @five(<16 x i8> %x) {\n"
    code += f"  %y = shufflevector <16 x i8> %x, <16 x i8> zeroinitializer, <16 x i32> <{lanes}>\n"
    code += "  ret <16 x i8> %y\n}\n"
    target = Target("x86_64-unknown-linux-gnu", "znver3", ("avx2", "fma"), 32)
    assert "extrq" not in KernelCompiler(target).whole_assembly(code, 2)
