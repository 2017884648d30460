"""The backend of ONNX's own tests: a model is prepared, then run."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend as BackendBase
from onnx.backend.base import BackendRep

from lowtide.onnx.session import InferenceSession
from lowtide.onnx.values import Value


@final
class PreparedModel(BackendRep):
    """A session that takes inputs in the model's order."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._names = [x.name for x in session.get_inputs()]

    def run(self, inputs: Any, **_: Any) -> tuple[Value, ...]:
        """Return all outputs, in the model's order."""
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        return tuple(self._session.run(None, dict(zip(self._names, given, strict=False))))


@final
class OnnxBackend(BackendBase):
    """The interface that `onnx.backend.test.BackendTest` asks for."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Return whether a device is there; of models none is left out."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> PreparedModel:
        """Return a model that can be run; `options` are those of `InferenceSession`."""
        onnx.checker.check_model(model)
        return PreparedModel(InferenceSession(model, **options))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **options: Any,
    ) -> tuple[Value, ...]:
        """Return the outputs of one node on arrays."""
        helper = onnx.helper
        arrays = [np.asarray(x) for x in inputs]
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(node.input, arrays, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        model = helper.make_model(helper.make_graph([node], "node", given, results))
        return PreparedModel(InferenceSession(model, **options)).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device is there: "CPU" is."""
        return device.split(":")[0] == "CPU"
