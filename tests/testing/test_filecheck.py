import pytest

from lowtide.testing.filecheck import DirectiveKind, FileCheckError, file_check, parse_checks

TEXT = """\
%sum (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %s = f32[] add(%x, %x)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %n.1 = f32[8]{0} negate(%a)
  %n.2 = f32[8]{0}   negate(%n.1)
  ROOT %m = f32[8]{0} multiply(%n.2, %n.1), metadata={op_name="m"}
}
"""


def check(*lines, text=TEXT):
    file_check(text, parse_checks("\n".join([f"// CHECK{line}" for line in lines])))


MATCHES = {
    "order": [": parameter", ": add", ": negate"],
    "blanks match any run of blanks": [": %n.2 = f32[8]{0} negate"],
    "regular expression": [": {{^ *}}ROOT %m = {{.*}} multiply("],
    "next": [": negate(%a)", "-NEXT: negate(%n.1)"],
    "same": [": %m = ", "-SAME: multiply", "-SAME: op_name"],
    "not between": [": negate", "-NOT: add", ": multiply"],
    "not to the end": [": negate(%n.1)", "-NOT: negate"],
    "not before the first match": ["-NOT: multiply", ": parameter"],
    "dag in any order": [": ENTRY", "-DAG: negate(%n.1)", "-DAG: negate(%a)", ": multiply"],
    "label": ["-LABEL: %sum", ": parameter", "-NOT: negate", "-LABEL: ENTRY", ": negate"],
    "label, then the next line": ["-LABEL: ENTRY", "-NEXT: parameter"],
    "variable": [": [[N:%[a-z.0-9]+]] = f32[8]{0} negate(%a)", ": multiply(%n.2, [[N]])"],
    "variable on one line": [": add([[X:%[a-z]+]], [[X]])"],
    "variable in dag": [": ENTRY", "-DAG: [[N:%n.2]] =", "-DAG: multiply([[N]],"],
    "variable across labels": ["-LABEL: %sum", ": [[X:f32]]", "-LABEL: ENTRY", ": [[X]][8]"],
    "comment of another kind": [": add"],
    "braces": [": metadata={op_name"],
}


@pytest.mark.parametrize("name", MATCHES)
def test_what_matches(name):
    check(*MATCHES[name])


MISMATCHES = {
    "order": ([": negate", ": add"], "CHECK: add"),
    "next is two lines away": ([": negate(%a)", "-NEXT: multiply"], "CHECK-NEXT: multiply"),
    "next is on the same line": ([": %n.1 =", "-NEXT: negate(%a)"], "CHECK-NEXT"),
    "same is on the next line": ([": negate(%a)", "-SAME: %n.2"], "CHECK-SAME"),
    "not is there": ([": parameter", "-NOT: negate", ": multiply"], "must not be there"),
    "not at the end": ([": negate(%a)", "-NOT: negate"], "must not be there"),
    "dag twice, there once": ([": ENTRY", "-DAG: multiply", "-DAG: multiply"], "CHECK-DAG"),
    "behind dag": (["-DAG: negate(%n.1)", "-DAG: parameter", ": negate(%a)"], "CHECK: negate"),
    "not before dag": ([": ENTRY", "-NOT: negate(%a)", "-DAG: multiply"], "must not be there"),
    "beyond the label": (["-LABEL: %sum", ": negate", "-LABEL: ENTRY"], "CHECK: negate"),
    "no such label": (["-LABEL: ENTRY", "-LABEL: %sum"], "CHECK-LABEL: %sum"),
    "another value": ([": [[N:%n.2]] =", ": multiply(%n.1, [[N]]"], r"CHECK: multiply"),
    "dot is no wildcard": ([": %n_1"], "CHECK: %n_1"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_what_does_not_match(name):
    lines, message = MISMATCHES[name]
    with pytest.raises(FileCheckError) as caught:
        check(*lines)
    assert message in str(caught.value)


def test_the_message_shows_the_place():
    with pytest.raises(FileCheckError) as caught:
        check(": negate(%a)", "-NEXT: multiply")
    assert str(caught.value) == (
        "line 2: CHECK-NEXT: multiply\nnot found in:\n  |   %n.2 = f32[8]{0}   negate(%n.1)"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no CHECK line"),
        ([":"], "no pattern"),
        (["-NEXT: add"], "no match before"),
        (["-SAME: add"], "no match before"),
        ([": [[N]]"], "nothing is called N"),
    ],
)
def test_wrong_checks_are_refused(lines, message):
    with pytest.raises(ValueError, match=message):
        check(*lines)


def test_checks_stand_in_comments_of_either_kind():
    checks = parse_checks("a // CHECK: b {{c}}  \n# CHECK-NOT: d\nCHECK: e\n// CHECKER: f")
    assert [(x.kind, x.pattern, x.line) for x in checks] == [
        (DirectiveKind.PLAIN, "b {{c}}", 1),
        (DirectiveKind.NOT, "d", 2),
    ]
