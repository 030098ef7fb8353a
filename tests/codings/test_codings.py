import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedcof.codings import CODINGS, parse_codings
from fedcof.errors import SummaryError

NAMES = ["float32", "float16", "int8", "int6", "int4"]
LEVELS = {"int8": 127, "int6": 31, "int4": 7}
LARGEST = 2.0**125

values = st.floats(-LARGEST, LARGEST, width=32) | st.sampled_from([0.0, -0.0, 1e-45, 1.5, -1.5])
matrices = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: arrays(
        dtype, array_shapes(min_dims=1, max_dims=3, max_side=7), elements=values, fill=values
    )
)


def decoded(name, array, centred=False):
    return CODINGS[name].decode(CODINGS[name].encode(array, centred=centred))


@pytest.mark.parametrize("name", NAMES)
@given(array=matrices, centred=st.booleans())
@example(array=np.zeros((3, 5)), centred=True)
@example(array=np.full((1, 1), 1e-45), centred=True)
@example(array=np.full((4, 3), LARGEST), centred=True)
@example(array=np.array([[LARGEST, -LARGEST], [-LARGEST, LARGEST]]), centred=True)
def test_what_comes_back_has_the_shape_and_is_near(name, array, centred):
    back = decoded(name, array, centred)
    assert (back.shape, back.dtype) == (array.shape, np.float32)
    largest = np.abs(array).max(axis=-1 if array.ndim > 1 else None, keepdims=True)
    share = {"float32": 2**-24, "float16": 2**-11}.get(name) or 1.01 / (2 * LEVELS[name])
    if name in ("int8", "int6", "int4") and centred:
        share, largest = 3 * share, np.abs(array).max()
    # A clipped value may be further off than half a step; the row as a whole is not. Subnormal
    # numbers may become 0.
    scale = float(np.abs(array).max())
    bound = np.linalg.norm(np.broadcast_to(largest / (scale or 1), array.shape)) * share
    error = np.linalg.norm((back - array.astype(float)) / (scale or 1))
    assert error * scale <= bound * scale * 1.001 + 1e-37 * array.size


@pytest.mark.parametrize("name", NAMES)
@given(array=matrices)
def test_what_was_decoded_is_coded_again_without_loss(name, array):
    once = decoded(name, array)
    np.testing.assert_array_equal(decoded(name, once), once)


@pytest.mark.parametrize("name", NAMES)
@given(array=matrices, centred=st.booleans())
def test_the_layout_is_what_travels(name, array, centred):
    def shapes(parts):
        return {suffix: (part.shape, part.dtype) for suffix, part in parts.items()}

    sent = CODINGS[name].encode(array, centred=centred)
    assert shapes(sent) == shapes(CODINGS[name].layout(array.shape, centred=centred))


def test_bytes_of_a_row():
    row = np.array([[7.0, -7.0, 3.5]])
    assert CODINGS["int4"].encode(row)[""].tolist() == [[0x80, 0x3F, 8 + 7 | 1 << 4, 8 + 4]]
    codes = (32 + 31) << 18 | (32 - 31) << 12 | (32 + 16) << 6
    assert CODINGS["int6"].encode(row * 31 / 7)[""].tolist() == [[0x80, 0x3F, *codes.to_bytes(3)]]
    assert CODINGS["int8"].encode(row * 127 / 7)[""].tolist() == [[0x80, 0x3F, 127, 129, 64]]
    assert CODINGS["float16"].encode(row)[""].tolist() == [[0x80, 0x40, 0, 63, 0, 191, 0, 59]]


def test_sizes_as_a_multiple_of_float32():
    array = np.random.default_rng(0).normal(size=(100, 512))
    sizes = {
        name: sum(part.nbytes for part in CODINGS[name].encode(array, centred=True).values())
        for name in NAMES
    }
    assert sizes == {
        "float32": 204_800,
        "float16": 100 * (2 + 1024),
        "int8": (100 + 1) * (2 + 512),
        "int6": (100 + 1) * (2 + 384),
        "int4": (100 + 2) * (2 + 256),
    }


def test_clipping_helps_where_one_value_is_far_from_the_others():
    row = np.random.default_rng(0).normal(size=(1, 512))
    row[0, 0] = 8.0
    step = 8.0 / 7
    unclipped = np.clip(np.rint(row / step), -7, 7) * step
    assert np.linalg.norm(decoded("int4", row) - row) < 0.8 * np.linalg.norm(unclipped - row)


def test_rows_about_a_common_centre_lose_less():
    rng = np.random.default_rng(0)
    rows = 10 * rng.normal(size=512) + rng.normal(size=(20, 512))
    with_centre, without = (
        np.linalg.norm(decoded("int4", rows, centred) - rows) for centred in (True, False)
    )
    assert with_centre < 0.25 * without


@pytest.mark.parametrize(
    ("name", "least"), [("float32", None), ("float16", None), ("int8", 8), ("int4", 2)]
)
def test_few_rows_have_no_centre(name, least):
    centred = [
        rows
        for rows in range(1, 12)
        if ".centred" in CODINGS[name].encode(np.ones((rows, 4)), centred=True)
    ]
    assert centred == ([] if least is None else list(range(least, 12)))


@pytest.mark.parametrize("name", CODINGS)
def test_an_array_in_the_order_of_columns_is_coded_as_its_copy(name):
    # float16 refused it, and so every summary of AFL, whose weights are laid out so.
    array = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    coded, expected = (CODINGS[name].encode(a, centred=False) for a in (array, array.copy("C")))
    assert coded.keys() == expected.keys()
    for part, values in coded.items():
        np.testing.assert_array_equal(values, expected[part])


def test_numbers_without_rows_travel_in_float32():
    numbers = np.array([1e-6, 1e6])
    for name in NAMES:
        np.testing.assert_array_equal(decoded(name, numbers), numbers.astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [1e39, -1e300])
def test_a_value_above_float32_is_refused(name, value):
    with pytest.raises(OverflowError, match=r"a value too large for (float32|float16|int.)"):
        CODINGS[name].encode(np.array([[1.0, value]]))


def tampered(name, byte, value):
    array = np.array(CODINGS[name].encode(np.array([[1.0, -1.0, 0.5]]))[""])
    array[0, byte] = value
    return {"": array}


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("int8", tampered("int8", 2, 128), "codes of int8 below -127"),
        ("int4", tampered("int4", 2, 0), "codes of int4 below -7"),
        ("int8", tampered("int8", 1, 0xFF), "a scale that is negative, NaN or infinite"),
        ("int8", tampered("int8", 1, 0x80), "a scale that is negative, NaN or infinite"),
        ("float16", tampered("float16", 3, 0x7C), "holds NaN or infinity"),
        ("float16", {"": np.zeros((1, 5), np.uint8)}, "two are a value"),
        ("int8", {"": np.zeros((1, 2), np.uint8)}, "too few for a row"),
        ("int8", {"": np.zeros((1, 4), np.int8)}, "came in int8, expected the bytes of int8"),
        ("int8", {"": np.zeros((1, 4), np.float32)}, "came in float32, expected the bytes of int8"),
        ("int4", {".centred": np.zeros((2, 4), np.uint8)}, "too few"),
        ("int4", {".other": np.zeros((4, 4), np.uint8)}, "came in uint8 .other"),
        ("int4", {k: np.zeros((4, 4), np.uint8) for k in ("", ".centred")}, "expected the bytes"),
        ("float32", {"": np.zeros((4, 4), np.uint8)}, "came in uint8, expected float32"),
    ],
)
def test_what_encode_does_not_make_is_refused(name, parts, message):
    with pytest.raises(SummaryError, match=message):
        CODINGS[name].decode(parts)


def test_codings_by_array():
    assert parse_codings("int8", ["means", "vectors"]) == {"means": "int8", "vectors": "int8"}
    assert parse_codings("vectors=int4,means=int8", ["means", "vectors"]) == {
        "means": "int8",
        "vectors": "int4",
    }
    assert parse_codings("vectors=int4", ["means", "vectors"])["means"] == "float32"
    with pytest.raises(ValueError, match="no array is called 'vector'; there are means, vectors"):
        parse_codings("vector=int4", ["means", "vectors"])
    with pytest.raises(
        ValueError, match="no coding is called 'int5'; did you mean int8 or int6 or int4"
    ):
        parse_codings("means=int5", ["means"])
