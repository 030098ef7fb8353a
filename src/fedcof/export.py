"""A head as other tools take it: an ONNX model, with or without backbone, or a layer of torch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from fedcof.errors import BackboneError, HeadError
from fedcof.heads import LinearHead
from fedcof.transforms import NO_TRANSFORM

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto

    from fedcof.backbones import ResolvedBackbone

_OPSET, _IR_VERSION = 17, 8
_OLDEST_OPSET = 13
"""The first in which the operations of the preprocessing are as they are today."""


def to_onnx(head: LinearHead, backbone: ResolvedBackbone | None = None) -> ModelProto:
    """Return a head as an ONNX model; `onnx.save_model` writes it to a file.

    Parameters
    ----------
    head : LinearHead
    backbone : ResolvedBackbone, optional
        What makes the features, as `fedcof.backbones.resolve` returns it. Default: the model takes
        features.

    Returns
    -------
    onnx.ModelProto
        Its input is ``features``, float32 (n, dim); or with a backbone ``image``, the RGB pixels of
        n images of one size, uint8 (n, height, width, 3): resize and normalisation are in the model
        and are those of `Preprocessing` to the last bit. Its outputs are ``scores``, float32
        (n, classes), and ``label`` (n,), int64 or string; and where the head is probabilistic
        ``probabilities``, float32 (n, classes). The classes are in the model's metadata under
        ``classes``, as JSON.

    Raises
    ------
    HeadError
        If the backbone gives features of another length.
    BackboneError
        If ONNX cannot bring the backbone's model to an opset of at least 13.

    Examples
    --------
    >>> head = LinearHead(np.eye(2), np.array(["cat", "dog"]))
    >>> [output.name for output in to_onnx(head).graph.output]
    ['scores', 'label']
    """
    from onnx import checker, helper

    if backbone is None:
        model = _head_graph(head, _OPSET, _IR_VERSION)
    else:
        model = _with_backbone(head, backbone)
    model.producer_name = "fedcof"
    helper.set_model_props(model, {"classes": json.dumps(head.classes.tolist())})
    checker.check_model(model)
    return model


def _head_graph(head: LinearHead, opset: int, ir_version: int) -> ModelProto:
    from onnx import TensorProto, helper, numpy_helper, parser

    constants = head.transform.constants(head.dim)
    transform = parser.parse_graph(
        "transform (float[n, d] features) => (float[n, e] transformed) {"
        f"{head.transform.onnx_nodes('features', 'transformed')}}}"
    )
    bias = np.zeros(len(head.classes)) if head.bias is None else head.bias
    numbers = head.classes.dtype.kind in "iu"
    classes = head.classes.astype(np.int64 if numbers else object)
    label_type = TensorProto.INT64 if numbers else TensorProto.STRING
    nodes = [
        *transform.node,
        helper.make_node("Gemm", ["transformed", "weight", "bias"], ["scores"], transB=1),
        helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0),
        helper.make_node("Gather", ["classes", "index"], ["label"]),
    ]
    scores = ["n", len(head.classes)]
    outputs = [
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, scores),
        helper.make_tensor_value_info("label", label_type, ["n"]),
    ]
    if head.probabilistic:
        nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1))
        outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, scores))
    graph = helper.make_graph(
        nodes,
        "fedcof",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", head.dim])],
        outputs,
        [
            numpy_helper.from_array(head.weight.astype(np.float32), "weight"),
            numpy_helper.from_array(bias.astype(np.float32), "bias"),
            numpy_helper.from_array(classes, "classes"),
            *(
                numpy_helper.from_array(value, f"transformed_{name}")
                for name, value in constants.items()
            ),
        ],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )


def _with_backbone(head: LinearHead, backbone: ResolvedBackbone) -> ModelProto:
    """Join preprocessing, network, pooling and head with its transform, each a model."""
    from fedcof.backbones import Backbone
    from fedcof.backbones.onnx_preprocessing import preprocessing_graph

    dim = Backbone.of(backbone).dim
    if dim != head.dim:
        raise HeadError(
            f"the head takes features of length {head.dim}, the backbone {backbone.name} gives "
            f"{dim}; name the backbone that made the head's features"
        )
    network = _loaded(backbone)
    opset = next(entry.version for entry in network.opset_import if entry.domain in ("", "ai.onnx"))
    version = opset, network.ir_version
    model = preprocessing_graph(backbone.preprocessing, opset=opset, ir_version=version[1])
    for following in (network, _pooling_graph(dim, *version), _head_graph(head, *version)):
        model = _joined(model, following)
    return model


def _loaded(backbone: ResolvedBackbone) -> ModelProto:
    """Return a backbone's model, its names apart from all others, with an opset that will do."""
    import onnx
    from onnx import compose, version_converter

    found = backbone.onnx_model()
    model = onnx.load_from_string(found) if isinstance(found, bytes) else onnx.load(found)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    if opsets.get("", opsets.get("ai.onnx", 0)) < _OLDEST_OPSET:
        try:
            model = version_converter.convert_version(model, _OPSET)
        except RuntimeError as error:
            raise BackboneError(
                f"backbone {backbone.name}: ONNX cannot bring it from opset {opsets} to {_OPSET} "
                f"({error}); export it again with opset {_OLDEST_OPSET} or newer"
            ) from error
    return compose.add_prefix(model, "backbone/")


def _pooling_graph(dim: int, opset: int, ir_version: int) -> ModelProto:
    """Average maps (n, dim, height, width) over their positions; features (n, dim) stay."""
    from onnx import parser

    return parser.parse_model(
        f"""
        <ir_version: {ir_version}, opset_import: ["" : {opset}]>
        pooling (float[] maps) => (float[n, {dim}] pooled) {{
            shape = Constant <value = int64[3] {{0, {dim}, -1}}> ()
            positions = Reshape (maps, shape)
            average = GlobalAveragePool (positions)
            pooled = Flatten (average)
        }}
        """
    )


def _joined(model: ModelProto, following: ModelProto) -> ModelProto:
    """Feed what a model gives to what follows."""
    from onnx import compose

    [output], [source] = model.graph.output, following.graph.input
    return compose.merge_models(model, following, [(output.name, source.name)])


def to_torch(head: LinearHead) -> torch.nn.Module:
    """Return a head as a layer in float32, from features (n, dim) to scores; needs torch.

    It is a ``torch.nn.Linear``; where the head has a transform, a ``torch.nn.Sequential`` of that
    and a ``torch.nn.Linear``.
    """
    from torch import nn

    if head.transform == NO_TRANSFORM:
        return linear_layer(head)
    from fedcof.backbones.torch_transform import TransformLayer

    return nn.Sequential(TransformLayer(head.transform, head.dim), linear_layer(head))


def linear_layer(head: LinearHead) -> torch.nn.Linear:
    """Return weight and bias of a head as a layer, from transformed features to scores."""
    import torch

    classes, dim = head.weight.shape
    layer = torch.nn.Linear(dim, classes, bias=head.bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(head.weight))
        if head.bias is not None:
            layer.bias.copy_(torch.tensor(head.bias))
    return layer
