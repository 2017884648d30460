"""The messages of TensorFlow's files: names, field numbers and types, as a table.

The lines are written as those of `hlo_proto/schema.py`: enums are spelled int32 and maps as the
repeated entries which they are on the wire. Fields that nothing here reads are left out.
"""

from __future__ import annotations

from typing import Final

MESSAGES: Final[dict[str, str]] = {
    # -- graphs --------------------------------------------------------------------------------
    "GraphDef": "node=1:NodeDef* library=2:FunctionDefLibrary versions=4:VersionDef",
    "VersionDef": "producer=1:int32 min_consumer=2:int32 bad_consumers=3:int32*",
    "NodeDef": (
        "name=1:string op=2:string input=3:string* device=4:string attr=5:AttrEntry* "
        "experimental_debug_info=6:DebugInfo"
    ),
    "DebugInfo": "original_node_names=1:string* original_func_names=2:string*",
    "FunctionDefLibrary": "function=1:FunctionDef*",
    "FunctionDef": ("signature=1:OpDef node_def=3:NodeDef* ret=4:TextEntry* attr=5:AttrEntry*"),
    "OpDef": ("name=1:string input_arg=2:ArgDef* output_arg=3:ArgDef*"),
    "ArgDef": "name=1:string type=3:int32 type_attr=4:string number_attr=5:string",
    "TextEntry": "key=1:string value=2:string",
    # -- attributes ----------------------------------------------------------------------------
    "AttrEntry": "key=1:string value=2:AttrValue",
    "AttrValue": (
        "list=1:ListValue@value s=2:bytes@value i=3:int64@value f=4:float@value b=5:bool@value "
        "type=6:int32@value shape=7:TensorShapeProto@value tensor=8:TensorProto@value "
        "placeholder=9:string@value func=10:NameAttrList@value"
    ),
    "ListValue": (
        "s=2:bytes* i=3:int64* f=4:float* b=5:bool* type=6:int32* shape=7:TensorShapeProto* "
        "tensor=8:TensorProto* func=9:NameAttrList*"
    ),
    "NameAttrList": "name=1:string attr=2:AttrEntry*",
    "TensorShapeProto": "dim=2:Dim* unknown_rank=3:bool",
    "Dim": "size=1:int64 name=2:string",
    "TensorProto": (
        "dtype=1:int32 tensor_shape=2:TensorShapeProto tensor_content=4:bytes float_val=5:float* "
        "double_val=6:double* int_val=7:int32* string_val=8:bytes* scomplex_val=9:float* "
        "int64_val=10:int64* bool_val=11:bool* dcomplex_val=12:double* half_val=13:int32* "
        "uint32_val=16:uint32* uint64_val=17:uint64* float8_val=18:bytes"
    ),
}
