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
    # -- models --------------------------------------------------------------------------------
    "SavedModel": "saved_model_schema_version=1:int64 meta_graphs=2:MetaGraph*",
    "MetaGraph": (
        "meta_info_def=1:MetaInfo graph_def=2:GraphDef signature_def=5:SignatureEntry* "
        "object_graph_def=7:SavedObjectGraph"
    ),
    "MetaInfo": "tags=4:string*",
    "SignatureEntry": "key=1:string value=2:SignatureDef",
    "SignatureDef": "inputs=1:TensorInfoEntry* outputs=2:TensorInfoEntry* method_name=3:string",
    "TensorInfoEntry": "key=1:string value=2:TensorInfo",
    "TensorInfo": "name=1:string dtype=2:int32 tensor_shape=3:TensorShapeProto",
    "SavedObjectGraph": "nodes=1:SavedObject*",
    "SavedObject": "variable=7:SavedVariable",
    "SavedVariable": "dtype=1:int32 shape=2:TensorShapeProto name=6:string",
    # -- checkpoints ---------------------------------------------------------------------------
    "BundleHeader": "num_shards=1:int32 endianness=2:int32",
    "BundleEntry": (
        "dtype=1:int32 shape=2:TensorShapeProto shard_id=3:int32 offset=4:int64 size=5:int64"
    ),
    "ObjectGraph": "nodes=1:TrackedObject*",
    "TrackedObject": "attributes=2:TrackedTensor*",
    "TrackedTensor": "name=1:string full_name=2:string checkpoint_key=3:string",
}
