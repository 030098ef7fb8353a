"""Preprocessing as an ONNX graph: from the pixels of an image to a network's input.

Pillow's resize is written out in operations that every runtime has, for the Resize of ONNX gives
other pixels. Every output pixel is a weighted sum of input pixels, first along the rows and then
along the columns, so each pass is one matrix product. Pillow rounds the weights to 22 bits and what
each pass gives to whole pixels; in float64 all of these sums are exact, and so the result is
Pillow's to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones.preprocessing import Preprocessing
from fedcof.errors import BackboneError

if TYPE_CHECKING:
    from onnx import ModelProto

_FLOAT, _UINT8, _INT64, _DOUBLE = 1, 2, 7, 11  # as onnx.TensorProto numbers the types

_MODEL = """
<ir_version: {ir_version}, opset_import: ["" : {opset}, "fedcof" : 1]>
preprocessing (uint8[n, {height}, {width}, 3] image) => (float[n, 3, {size}, {size}] input) {{
    planes = Transpose <perm = [0, 3, 1, 2]> (image)
    order = Constant <value = int64[3] {{{channels}}}> ()
    ordered = Gather <axis = 1> (planes, order)
    square = fedcof.resize (ordered)
    pixels = Cast <to = {float}> (square)
    mean = Constant <value = float[1, 3, 1, 1] {{{mean}}}> ()
    centred = Sub (pixels, mean)
    input = fedcof.scale_colours (centred)
}}
"""

# A pass over the numbers that changes none is left out.
_NO_SCALE = """
<domain: "fedcof", opset_import: ["" : {opset}]>
scale_colours (centred) => (input) {{
    input = Identity (centred)
}}
"""

_COLOUR_SCALE = """
<domain: "fedcof", opset_import: ["" : {opset}]>
scale_colours (centred) => (input) {{
    inverse_scale = Constant <value = float[1, 3, 1, 1] {{{inverse_scale}}}> ()
    input = Mul (centred, inverse_scale)
}}
"""

_NO_RESIZE = """
<domain: "fedcof", opset_import: ["" : {opset}]>
resize (planes) => (square) {{
    square = Identity (planes)
}}
"""

_RESIZE = """
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
resize (planes) => (square) {{
    shape = Shape (planes)
    third = Constant <value = int64 {{2}}> ()
    last = Constant <value = int64 {{3}}> ()
    height = Gather (shape, third)
    width = Gather (shape, last)
    wide = fedcof.resize_rows (planes, width)
    square = fedcof.resize_columns (wide, height)
}}
"""

_WEIGHTS_MODEL = """
<ir_version: {ir_version}, opset_import: ["" : {opset}, "fedcof" : 1]>
weights (int64 length) => (double[{size}, n] weights) {{
    weights = fedcof.weights (length)
}}
"""

_INDEX_MODEL = """
<ir_version: {ir_version}, opset_import: ["" : {opset}, "fedcof" : 1]>
index (int64 length) => (int64[{size}] index) {{
    index = fedcof.nearest (length)
}}
"""

# The centre of output pixel i lies at (i + 1/2) * scale of the input, scale = length / size.
_SCALE = """
<domain: "fedcof", opset_import: ["" : {opset}]>
scale (length) => (scale) {{
    size = Constant <value = double {{{size}.0}}> ()
    length_d = Cast <to = {double}> (length)
    scale = Div (length_d, size)
}}
"""

# Pillow adds the scale up, from centre to centre; a product would round in another way.
_NEAREST = """
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
nearest (length) => (index) {{
    scale = fedcof.scale (length)
    axis = Constant <value = int64 {{0}}> ()
    shares = Constant <value = double[{size}] {{{shares}}}> ()
    steps = Mul (shares, scale)
    centers = CumSum (steps, axis)
    index = Cast <to = {int64}> (centers)
}}
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
resize_rows (planes, width) => (resized) {{
    index = fedcof.nearest (width)
    resized = Gather <axis = 3> (planes, index)
}}
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
resize_columns (planes, height) => (resized) {{
    index = fedcof.nearest (height)
    resized = Gather <axis = 2> (planes, index)
}}
"""

# The filter is stretched by the scale where that is above 1: the antialiasing.
_FILTERED = """
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
weights (length) => (weights) {{
    zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()
    half = Constant <value = double {{0.5}}> ()
    one_d = Constant <value = double {{1.0}}> ()
    axis = Constant <value = int64[1] {{1}}> ()
    bits = Constant <value = double {{4194304.0}}> ()

    scale = fedcof.scale (length)
    middles = Constant <value = double[{size}, 1] {{{middles}}}> ()
    centers = Mul (middles, scale)
    sources = Range (zero, length, one)
    sources_d = Cast <to = {double}> (sources)
    offsets = Sub (sources_d, centers)
    distances = Add (offsets, half)
    stretch = Max (scale, one_d)
    inverse_stretch = Div (one_d, stretch)
    arguments = Mul (distances, inverse_stretch)
    magnitudes = Abs (arguments)
    kernel = fedcof.kernel (magnitudes)
    sums = ReduceSum <keepdims = 1> (kernel, axis)
    inverse_sums = Div (one_d, sums)
    normalized = Mul (kernel, inverse_sums)
    shifted = Mul (normalized, bits)
    signs = Sign (shifted)
    lengths = Abs (shifted)
    rounding = Add (lengths, half)
    whole = Floor (rounding)
    fixed = Mul (whole, signs)

    weights = Div (fixed, bits)
}}
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
resize_rows (planes, width) => (resized) {{
    weights = fedcof.weights (width)
    weights_t = Transpose <perm = [1, 0]> (weights)
    pixels = Cast <to = {double}> (planes)
    sums = MatMul (pixels, weights_t)
    resized = fedcof.whole (sums)
}}
<domain: "fedcof", opset_import: ["" : {opset}, "fedcof" : 1]>
resize_columns (planes, height) => (resized) {{
    weights = fedcof.weights (height)
    pixels = Cast <to = {double}> (planes)
    sums = MatMul (weights, pixels)
    resized = fedcof.whole (sums)
}}
<domain: "fedcof", opset_import: ["" : {opset}]>
whole (sums) => (levels) {{
    half = Constant <value = double {{0.5}}> ()
    nearly = Add (sums, half)
    %s
    levels = Cast <to = {uint8}> (within)
}}
"""
# Without negative weights nothing is beyond black and white, and one pass over the pixels is saved.
_WITHIN = "within = Identity (nearly)"
_CLIPPED = """
    black = Constant <value = double {{0.0}}> ()
    white = Constant <value = double {{255.0}}> ()
    within = Clip (nearly, black, white)
"""

# Filters over x >= 0, in units of output pixels (of input pixels where the image grows).
_KERNELS = {
    "bilinear": """
    one = Constant <value = double {{1.0}}> ()
    zero = Constant <value = double {{0.0}}> ()
    line = Sub (one, x)
    y = Max (line, zero)
""",
    # (1.5 x - 2.5) x^2 + 1 below 1, (((x - 5) x + 8) x - 4) * -0.5 below 2
    "bicubic": """
    zero = Constant <value = double {{0.0}}> ()
    one = Constant <value = double {{1.0}}> ()
    two = Constant <value = double {{2.0}}> ()
    n3 = Constant <value = double {{1.5}}> ()
    n2 = Constant <value = double {{2.5}}> ()
    f2 = Constant <value = double {{5.0}}> ()
    f1 = Constant <value = double {{8.0}}> ()
    f0 = Constant <value = double {{4.0}}> ()
    a = Constant <value = double {{-0.5}}> ()
    near3 = Mul (n3, x)
    near2 = Sub (near3, n2)
    near1 = Mul (near2, x)
    near0 = Mul (near1, x)
    near = Add (near0, one)
    far3 = Sub (x, f2)
    far2 = Mul (far3, x)
    far1 = Add (far2, f1)
    far0 = Mul (far1, x)
    far_a = Sub (far0, f0)
    far = Mul (far_a, a)
    below_one = Less (x, one)
    below_two = Less (x, two)
    tail = Where (below_two, far, zero)
    y = Where (below_one, near, tail)
""",
    # sinc(x) sinc(x / 3) below 3
    "lanczos": """
    zero = Constant <value = double {{0.0}}> ()
    one = Constant <value = double {{1.0}}> ()
    three = Constant <value = double {{3.0}}> ()
    pi = Constant <value = double {{3.141592653589793}}> ()
    at_zero = Equal (x, zero)
    safe = Where (at_zero, one, x)
    angle = Mul (safe, pi)
    sine = Sin (angle)
    sinc = Div (sine, angle)
    third = Div (angle, three)
    sine_third = Sin (third)
    sinc_third = Div (sine_third, third)
    product = Mul (sinc, sinc_third)
    value = Where (at_zero, one, product)
    below_three = Less (x, three)
    y = Where (below_three, value, zero)
""",
}
_KERNEL = '<domain: "fedcof", opset_import: ["" : {opset}]>\nkernel (x) => (y) {{%s}}\n'


def preprocessing_graph(
    preprocessing: Preprocessing, *, opset: int, ir_version: int, resize: bool = True
) -> ModelProto:
    """Return the model from ``image`` to ``input`` that does what the preprocessing does.

    Parameters
    ----------
    preprocessing : Preprocessing
    opset, ir_version : int
        The versions of ONNX; the opset is at least 13.
    resize : bool, default True
        Whether the images may have another size than the network's input.

    Returns
    -------
    onnx.ModelProto
        From ``image``, RGB pixels of n images of one size, uint8 (n, height, width, 3), to
        ``input``, float32 (n, 3, size, size), equal to `Preprocessing.__call__` bit for bit.
        Without the resize, also to that of images whose centre was cut out.

    Raises
    ------
    BackboneError
        If the images are to be resized and then their centre cut out.
    """
    if resize and preprocessing.shorter_side is not None:
        raise BackboneError(
            f"the preprocessing cuts the centre out of images whose shorter side is resized to "
            f"{preprocessing.shorter_side} pixels, which no exported model does"
        )
    text = _MODEL + (_NO_SCALE if set(preprocessing.scale) == {1.0} else _COLOUR_SCALE)
    text += _RESIZE + _functions(preprocessing) if resize else _NO_RESIZE
    return _filled(text, preprocessing, opset=opset, ir_version=ir_version, resize=resize)


def resize_weights(preprocessing: Preprocessing, length: int) -> NDArray[np.float64]:
    """Return the weights of Pillow's resize, as the graph computes them.

    Parameters
    ----------
    preprocessing : Preprocessing
    length : int
        Pixels of a row, or of a column.

    Returns
    -------
    (size, length) float64 array
        Of every pixel of the input in every pixel of the output.
    """
    import onnxruntime

    nearest = preprocessing.resampling == "nearest"
    text = (_INDEX_MODEL if nearest else _WEIGHTS_MODEL) + _functions(preprocessing)
    model = _filled(text, preprocessing, opset=17, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"length": np.array(length, np.int64)})
    return np.asarray(np.eye(length)[found] if nearest else found)


def _functions(preprocessing: Preprocessing) -> str:
    """Return the functions that a resize needs."""
    filter_ = preprocessing.resampling
    if filter_ == "nearest":
        return _SCALE + _NEAREST
    filtered = _FILTERED % (_WITHIN if filter_ == "bilinear" else _CLIPPED)
    return _SCALE + _KERNEL % _KERNELS[filter_] + filtered


def _filled(
    text: str, preprocessing: Preprocessing, *, opset: int, ir_version: int, resize: bool = True
) -> ModelProto:
    """Return the model of a text whose numbers are those of a preprocessing."""
    from onnx import inliner, parser

    size = preprocessing.size
    filled = text.format(
        opset=opset,
        ir_version=ir_version,
        size=size,
        height="height" if resize else size,
        width="width" if resize else size,
        middles=", ".join(f"{i}.5" for i in range(size)),
        shares=", ".join(["0.5", *["1.0"] * (size - 1)]),
        channels="0, 1, 2" if preprocessing.color_order == "RGB" else "2, 1, 0",
        mean=_numbers(preprocessing.mean),
        inverse_scale=_numbers(1 / scale for scale in preprocessing.scale),
        uint8=_UINT8,
        float=_FLOAT,
        int64=_INT64,
        double=_DOUBLE,
    )
    return inliner.inline_local_functions(parser.parse_model(filled))


def _numbers(values: Iterable[float]) -> str:
    """Return numbers as ONNX's text has them, to the last bit of float32."""
    return ", ".join(np.format_float_positional(np.float32(value), trim="0") for value in values)
