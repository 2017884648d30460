"""Programs with loops and branches, of square matrices of 400 bytes."""

SQUARE = "f32[10,10]{1,0}"
BYTES = 400
"""Of one square matrix."""


def dot(name: str, x: str, y: str) -> str:
    rest = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return f"  {name} = {SQUARE} dot({x}, {y}), {rest}\n"


def entry(body: str, head: str = "HloModule m", before: str = "") -> str:
    return f"{head}\n{before}ENTRY e {{\n{body}}}\n"


LOOP = f"""body {{
  p = (s32[], {SQUARE}, {SQUARE}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {SQUARE} get-tuple-element(p), index=1
  w = {SQUARE} get-tuple-element(p), index=2
{dot("y", "x", "w")}{dot("z", "y", "x")}  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], {SQUARE}, {SQUARE}) tuple(j, z, w)
}}
condition {{
  q = (s32[], {SQUARE}, {SQUARE}) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(k, n), direction=LT
}}
"""


def loop_program(kept: str = "l") -> str:
    body = f"""  w = {SQUARE} parameter(0)
  x = {SQUARE} parameter(1)
  zero = s32[] constant(0)
  s = (s32[], {SQUARE}, {SQUARE}) tuple(zero, x, w)
  f = (s32[], {SQUARE}, {SQUARE}) while(s), condition=condition, body=body
  l = {SQUARE} get-tuple-element(f), index=1
{dot("d", "x", "l")}  ROOT r = ({SQUARE}, {SQUARE}) tuple(d, {kept})
"""
    return entry(body, before=LOOP)


def branch_program() -> str:
    branch = f"""  p = {SQUARE} parameter(0)
{dot("a", "p", "p")}"""
    small = f"small {{\n  ROOT s = {SQUARE} parameter(0)\n}}\n"
    large = f"large {{\n{branch}{dot('ROOT b', 'a', 'p')}}}\n"
    body = f"""  which = s32[] parameter(0)
  x = {SQUARE} parameter(1)
  n = {SQUARE} sine(x)
  ROOT c = {SQUARE} conditional(which, n, n), branch_computations={{small, large}}
"""
    return entry(body, before=small + large)


def barrier_program() -> str:
    """Kept apart, a product is computed twice; the second operand of the first is not kept."""
    return entry(f"""  x = {SQUARE} parameter(0)
{dot("a", "x", "x")}  b = {SQUARE} opt-barrier(x)
{dot("c", "b", "b")}{dot("ROOT r", "a", "c")}""")
