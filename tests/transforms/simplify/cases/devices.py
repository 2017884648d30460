"""Numbers of devices, collectives of one device, static sizes."""

from tests.transforms.simplify.cases.notation import Case

CASES: list[Case] = [
    ("number-of-lone-device", "a = u32[] partition-id()", "a: u32[] = 0"),
    ("number-of-lone-device", "a = u32[] replica-id()", "a: u32[] = 0"),
    (
        "exchange-of-lone-replicas",
        "x: f32[4]; a = f32[4] all-reduce(x), replica_groups={{0}}, to_apply=add_f32",
        "x: f32[4]",
    ),
    (
        "exchange-of-lone-replicas",
        "x: f32[4]; a = f32[4] all-gather(x), replica_groups={}, dimensions={0}",
        "x: f32[4]",
    ),
    (
        "exchange-of-lone-replicas",
        "x: f32[4]; a = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add_f32",
        None,
    ),
    (
        "exchange-of-lone-replicas",
        "x: f32[4]; a = f32[4] all-reduce(x), channel_id=1, replica_groups={{0}}, to_apply=add_f32",
        None,
    ),
    (
        "size-of-static-dimension",
        "x: f32[4,6]; a = s32[] get-dimension-size(x), dimensions={1}",
        "x: f32[4,6]; a: s32[] = 6",
    ),
    (
        "size-of-static-dimension",
        "x: f32[4,6]; n: s32[]; y = f32[4,<=6] set-dimension-size(x, n), dimensions={1}; "
        "a = s32[] get-dimension-size(y), dimensions={1}",
        None,
    ),
    (
        "set-size-to-what-it-is",
        "x: f32[4,6]; n: s32[] = 6; a = f32[4,6] set-dimension-size(x, n), dimensions={1}",
        "x: f32[4,6]",
    ),
    (
        "set-size-to-what-it-is",
        "x: f32[4,6]; n: s32[] = 5; a = f32[4,6] set-dimension-size(x, n), dimensions={1}",
        None,
    ),
]
