"""Modules whose collectives ranks run: each kind, with all kinds of groups, types and sizes."""

from __future__ import annotations

from collections.abc import Iterator

GLOBAL = "channel_id=1, use_global_device_ids=true"
ALL = f"{GLOBAL}, replica_groups={{}}"

MODES = {
    "replicas": "replica_groups={{1,0}}",
    "all_replicas": "replica_groups={}",
    "both": "channel_id=1, replica_groups={{1,0}}",
    "partitions_of_each_replica": "channel_id=1, replica_groups={{0},{1}}",
    "global": f"{GLOBAL}, replica_groups={{{{3,0}},{{1,2}}}}",
    "all": ALL,
    "iota": f"{GLOBAL}, replica_groups=[2,2]<=[2,2]T(1,0)",
}
SIZES = {"both": 4, "all": 4}
OF_PARTITIONS = {
    "replicas": "replica_groups={{1,0}}",
    "partitions": "channel_id=1, replica_groups={{1,0}}",
}
UNEVEN = f"{GLOBAL}, replica_groups={{{{0}},{{3,1,2}}}}"
TYPES = ["f16", "bf16", "f32", "f64", "s8", "u16", "s32", "u64", "pred", "f8e5m2", "f8e4m3fn"]
PAIRS = [
    "source_target_pairs={{0,1}}",
    "channel_id=1, source_target_pairs={{0,1},{1,0}}",
    "channel_id=1, source_target_pairs={{0,0}}",
    "channel_id=1, source_target_pairs={}",
]
RAGGED = """  x = f32[9,2] parameter(0)
  o = f32[20,2] parameter(1)
  i = s32[8] constant({0,1,3,3,4,6,6,8})
  s = s32[8] constant({1,2,0,1,2,0,2,1})
  p = u32[] partition-id()
  n = s32[] convert(p)
  nine = s32[] constant(9)
  m = s32[] multiply(n, nine)
  w = s32[8] broadcast(m), dimensions={}
  l = s32[8] constant({0,2,5,4,1,4,5,7})
  t = s32[8] add(l, w)
  r = s32[8] constant({1,2,0,1,2,0,2,1})
  ROOT y = f32[20,2] ragged-all-to-all(x, o, i, s, t, r), """


def text(body: str, type_: str = "f32", reducer: str = "add", header: str = "") -> str:
    return (
        f"HloModule m, replica_count=2, num_partitions=2{header}\n"
        f"add {{\n  a = {type_}[] parameter(0)\n  b = {type_}[] parameter(1)\n"
        f"  ROOT c = {type_}[] {reducer}(a, b)\n}}\nENTRY e {{\n{body}\n}}\n"
    )


def one(opcode: str, given: str, result: str, rest: str) -> str:
    return f"  x = {given} parameter(0)\n  ROOT y = {result} {opcode}(x), {rest}"


def reduction(type_: str, reducer: str, sizes: str = "67", groups: str = ALL) -> str:
    shape = f"{type_}[{sizes}]"
    return text(one("all-reduce", shape, shape, f"{groups}, to_apply=add"), type_, reducer)


def cases() -> dict[str, str]:
    """Return the text of each case by name."""
    return dict(
        [*_groups(), *_moves(), *_reductions(), *_sizes(), *_layouts(), *_pairs(), *_programs()]
    )


def _groups() -> Iterator[tuple[str, str]]:
    for mode, groups in MODES.items():
        size = SIZES.get(mode, 2)
        yield f"all-reduce {mode}", reduction("f32", "add", "5,3", groups)
        for d, wide in ((0, f"f32[{3 * size},5]"), (1, f"f32[3,{5 * size}]")):
            rest = f"{groups}, dimensions={{{d}}}"
            yield f"all-gather {mode} {d}", text(one("all-gather", "f32[3,5]", wide, rest))
            scatter = one("reduce-scatter", wide, "f32[3,5]", f"{rest}, to_apply=add")
            yield f"reduce-scatter {mode} {d}", text(scatter)
    yield "all-reduce uneven", reduction("f32", "add", "5,3", UNEVEN)


def _moves() -> Iterator[tuple[str, str]]:
    both = "(f32[3,5], f32[3,5])"
    for mode, groups in OF_PARTITIONS.items():
        for d in (0, 1):
            body = one("all-to-all", "f32[4,6]", "f32[4,6]", f"{groups}, dimensions={{{d}}}")
            yield f"all-to-all {mode} {d}", text(body)
        body = "  x = f32[3,5] parameter(0)\n  y = f32[3,5] parameter(1)\n"
        yield (
            f"all-to-all {mode} tuple",
            text(f"{body}  ROOT t = {both} all-to-all(x, y), {groups}"),
        )
        yield f"broadcast {mode}", text(one("collective-broadcast", "f32[3]", "f32[3]", groups))
    for i, pairs in enumerate(PAIRS):
        yield f"permute {i}", text(one("collective-permute", "f32[3,2]", "f32[3,2]", pairs))
    yield (
        "numbers",
        text("  p = u32[] partition-id()\n  r = u32[] replica-id()\n  ROOT s = u32[] add(p, r)"),
    )


def _reductions() -> Iterator[tuple[str, str]]:
    for type_ in TYPES:
        for reducer in ("add", "multiply", "maximum", "minimum"):
            yield f"{reducer} {type_}", reduction(type_, reducer)
    for type_ in ("c64", "c128"):
        yield f"add {type_}", reduction(type_, "add")
    for reducer in ("and", "or", "xor"):
        for type_ in ("pred", "u32"):
            yield f"{reducer} {type_}", reduction(type_, reducer)


def _sizes() -> Iterator[tuple[str, str]]:
    for sizes in ("", "0", "1", "0,3", "7,0,2", "40000", "3,5001"):
        for type_ in ("f32", "bf16"):
            yield f"all-reduce {type_}[{sizes}]", reduction(type_, "add", sizes)
    pair = f"{GLOBAL}, replica_groups={{{{2,0}},{{3,1}}}}"
    for rows in (0, 1, 300):
        for d in (0, 1):
            narrow = [rows, 80]
            wide = [2 * x if i == d else x for i, x in enumerate(narrow)]
            given, result = (f"f32[{','.join(map(str, x))}]" for x in (narrow, wide))
            rest = f"{pair}, dimensions={{{d}}}"
            yield f"all-gather {given} {d}", text(one("all-gather", given, result, rest))
            scatter = one("reduce-scatter", result, given, f"{rest}, to_apply=add")
            yield f"reduce-scatter {result} {d}", text(scatter)


def _layouts() -> Iterator[tuple[str, str]]:
    for a, b in (("{0,1}", "{1,0}"), ("{1,0}", "{0,1}"), ("{0,1}", "{0,1}")):
        rest = f"{ALL}, dimensions={{1}}"
        for opcode, given, result, how in (
            ("all-gather", "[3,5]", "[3,20]", rest),
            ("reduce-scatter", "[3,20]", "[3,5]", f"{rest}, to_apply=add"),
            ("all-reduce", "[3,5]", "[3,5]", f"{ALL}, to_apply=add"),
            ("all-to-all", "[3,4]", "[3,4]", "channel_id=1, replica_groups={}, dimensions={1}"),
            ("collective-permute", "[3,5]", "[3,5]", "channel_id=1, source_target_pairs={{0,1}}"),
        ):
            body = one(opcode, f"f32{given}{a}", f"f32{result}{b}", how)
            yield f"{opcode} {a} {b}", text(body, header=", is_scheduled=true")


def _pairs() -> Iterator[tuple[str, str]]:
    body = f"""  x = f32[300] parameter(0)
  y = f32[40,200] parameter(1)
  s = f32[300] all-reduce-start(x), {ALL}, to_apply=add
  n = f32[40,200] negate(y)
  g = (f32[40,200], f32[160,200]) all-gather-start(n), {ALL}, dimensions={{0}}
  p = (f32[40,200], f32[40,200]) collective-permute-start(n), channel_id=9,
    source_target_pairs={{{{0,1}}}}
  m = f32[40,200] multiply(y, y)
  t = f32[300] all-reduce-done(s)
  q = f32[40,200] collective-permute-done(p)
  e = f32[40,200] add(m, q)
  h = f32[160,200] all-gather-done(g)
  r = f32[300] negate(t)
  ROOT z = (f32[300], f32[160,200], f32[40,200]) tuple(r, h, e)""".replace(",\n    ", ", ")
    yield "pairs", text(body, header=", is_scheduled=true")
    for groups in ("{{1,0}}", "{{0,1}}"):
        rest = f"channel_id=1, replica_groups={groups}"
        yield f"ragged {groups}", text(RAGGED + rest)
    large = f"""  x = f32[40000] parameter(0)
  c = f32[40000] copy(x)
  s = f32[40000] all-reduce-start(c), {ALL}, to_apply=add
  m = f32[40000] multiply(x, x)
  t = f32[40000] all-reduce-done(s)
  ROOT z = f32[40000] add(m, t)"""
    yield "a large pair", text(large, header=", is_scheduled=true")


def _programs() -> Iterator[tuple[str, str]]:
    yield (
        "several operands",
        text(f"""  x = f32[40,30] parameter(0)
  y = f32[] parameter(1)
  z = f32[2,3] parameter(2)
  a = (f32[40,30], f32[], f32[2,3]) all-reduce(x, y, z), {ALL}, to_apply=add
  b = (f32[160,30], f32[8,3]) all-gather(x, z), {ALL}, dimensions={{0}}
  p = (f32[40,30], f32[]) collective-permute(x, y), channel_id=3, source_target_pairs={{{{0,1}}}}
  g = f32[40,30] get-tuple-element(a), index=0
  ROOT t = (f32[40,30], (f32[160,30], f32[8,3]), (f32[40,30], f32[])) tuple(g, b, p)"""),
    )
    loop = f"""HloModule m, replica_count=2, num_partitions=2
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
more {{
  s = (s32[], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[9] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  r = f32[9] all-reduce(x), {ALL}, to_apply=add
  k = f32[] constant(0.25)
  b = f32[9] broadcast(k), dimensions={{}}
  y = f32[9] multiply(r, b)
  ROOT t = (s32[], f32[9]) tuple(j, y)
}}
ENTRY e {{
  x = f32[9] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[9]) tuple(z, x)
  w = (s32[], f32[9]) while(s), condition=more, body=body
  ROOT y = f32[9] get-tuple-element(w), index=1
}}
"""
    yield "a loop", loop
