import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def onnx_model(
    op="GlobalAveragePool",
    *,
    shape=("n", 3, 4, 4),
    dtype=TensorProto.FLOAT,
    flatten=True,
    outputs=1,
    bias=0.0,
):
    """A network of one operation, after the addition of a bias."""
    names = [f"out{i}" for i in range(outputs)]
    nodes = [
        helper.make_node("Add", ["image", "bias"], ["sum"]),
        helper.make_node(op, ["sum"], ["maps"]),
        *(helper.make_node("Flatten" if flatten else "Identity", ["maps"], [n]) for n in names),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", dtype, shape)],
        [helper.make_tensor_value_info(name, dtype, None) for name in names],
        [numpy_helper.from_array(np.full(1, bias, helper.tensor_dtype_to_np_dtype(dtype)), "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def save_model(tmp_path):
    def save(name="tiny.onnx", *, external=None, **kwargs):
        path = tmp_path / name
        onnx.save(
            onnx_model(**kwargs),
            path,
            save_as_external_data=external is not None,
            location=external,
            size_threshold=0,
        )
        return path

    return save
