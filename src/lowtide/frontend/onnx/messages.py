"""ONNX's messages from bytes, without the package onnx, which takes as long to load as NumPy.

What no class here can parse, such as strings that are not UTF-8, that package reads and tells of.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from lowtide.frontend.hlo_proto.messages import classes_of, declared_fields
from lowtide.ir.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    from onnx import ModelProto

_PACKAGE: Final = "lowtide.onnx"

_MESSAGES: Final = {
    "ModelProto": (
        "ir_version=1:int64 opset_import=8:OperatorSetIdProto* producer_name=2:string "
        "domain=4:string model_version=5:int64 doc_string=6:string graph=7:GraphProto "
        "metadata_props=14:StringStringEntryProto* functions=25:FunctionProto*"
    ),
    "OperatorSetIdProto": "domain=1:string version=2:int64",
    "StringStringEntryProto": "key=1:string value=2:string",
    "FunctionProto": "name=1:string domain=10:string",
    "GraphProto": (
        "node=1:NodeProto* name=2:string initializer=5:TensorProto* "
        "sparse_initializer=15:SparseTensorProto* doc_string=10:string input=11:ValueInfoProto* "
        "output=12:ValueInfoProto*"
    ),
    "NodeProto": (
        "input=1:string* output=2:string* name=3:string op_type=4:string domain=7:string "
        "attribute=5:AttributeProto* metadata_props=9:StringStringEntryProto*"
    ),
    "AttributeProto": (
        "name=1:string type=20:int32 f=2:float i=3:int64 s=4:bytes t=5:TensorProto g=6:GraphProto "
        "sparse_tensor=22:SparseTensorProto tp=14:TypeProto floats=7:float* ints=8:int64* "
        "strings=9:bytes* tensors=10:TensorProto* graphs=11:GraphProto*"
    ),
    "TensorProto": (
        "dims=1:int64* data_type=2:int32 segment=3:Segment float_data=4:float* int32_data=5:int32* "
        "string_data=6:bytes* int64_data=7:int64* name=8:string raw_data=9:bytes? "
        "double_data=10:double* uint64_data=11:uint64* external_data=13:StringStringEntryProto* "
        "data_location=14:int32"
    ),
    "Segment": "begin=1:int64 end=2:int64",
    "SparseTensorProto": "values=1:TensorProto indices=2:TensorProto dims=3:int64*",
    "ValueInfoProto": "name=1:string type=2:TypeProto",
    "TypeProto": (
        "tensor_type=1:Tensor@value sequence_type=4:Sequence@value map_type=5:Map@value "
        "optional_type=9:Optional@value sparse_tensor_type=8:Tensor@value "
        "opaque_type=7:Opaque@value"
    ),
    "Tensor": "elem_type=1:int32 shape=2:TensorShapeProto",
    "Sequence": "elem_type=1:TypeProto",
    "Map": "key_type=1:int32 value_type=2:TypeProto",
    "Optional": "elem_type=1:TypeProto",
    "Opaque": "domain=1:string name=2:string",
    "TensorShapeProto": "dim=1:Dimension*",
    "Dimension": "dim_value=1:int64@value dim_param=2:string@value",
}
"""Names, field numbers and types of messages, as in `hlo_proto/schema.py`, enums as numbers. Fields
that nothing here reads are left out."""

TYPE_NAMES: Final = (
    *("UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING"),
    *("BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"),
    *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4"),
    *("FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2"),
)
"""What TensorProto.DataType calls the types of elements, by number."""

STRING: Final = TYPE_NAMES.index("STRING")

EXTERNAL: Final = 1
"""The place of data that lies in another file: of TensorProto.DataLocation."""

ATTRIBUTE_TYPES: Final = (
    *("UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS"),
    *("TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"),
)
"""What AttributeProto.AttributeType calls the types of attributes, by number."""


@cache
def _model_class() -> Any:
    messages = {name: declared_fields(name, line) for name, line in _MESSAGES.items()}
    return classes_of(_PACKAGE, messages)["ModelProto"]


def parsed(data: bytes) -> ModelProto:
    """Return a model; what reads it takes one of the package onnx as well.

    Raises DecodeError for what has to be read by that package.
    """
    return cast("ModelProto", _model_class().FromString(data))


def package_onnx(file: str = "") -> ModuleType:
    """Return the package onnx, for a model in `file`; raises InputError without it."""
    try:
        import onnx
    except ImportError as error:
        message = "reading this ONNX model takes the package onnx: pip install 'lowtide[onnx]'"
        raise InputError(message, file=file) from error
    return onnx
