"""The sizes of summaries that are not made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.client import Sender
from fedcof.methods import METHODS


@pytest.mark.parametrize("method", sorted(METHODS))
@given(
    classes=st.lists(st.integers(0, 10**6), min_size=1, max_size=12, unique=True),
    dim=st.integers(1, 12),
    named=st.booleans(),
    client_id=st.text(max_size=5),
)
def test_sizes_are_those_of_the_summary_when_it_is_made(method, classes, dim, named, client_id):
    labels = np.array([f"é{c}" for c in classes] if named else classes)
    summary = METHODS[method]().summarize(
        np.ones((len(labels), dim)), labels, client_id=client_id, rng=0
    )
    expected = (summary.formula_bytes, len(summary.to_bytes()))
    sender = Sender(METHODS[method](), coding="float32")
    assert (
        sender.expected_bytes(summary.classes, dim, samples=len(labels), client_id=client_id)
        == expected
    )
