"""Arrays as bytes."""

import numpy as np

from fedcof.wire import decode, encode


def test_an_array_without_axes_keeps_its_shape():
    # It came back with the shape (1,): the checkpoint of a model with such a parameter did not fit.
    arrays, _ = decode(encode({"scale": np.float32(2.0).reshape(())}, {}))
    assert arrays["scale"].shape == ()
    assert arrays["scale"] == 2.0


def test_an_array_that_is_not_contiguous_comes_back_equal():
    array = np.arange(12.0).reshape(3, 4).T
    assert np.array_equal(decode(encode({"a": array}, {}))[0]["a"], array)
