"""Whether a head fits what is trained."""

import numpy as np
import pytest

from fedcof import HeadError, LinearHead
from fedcof.training.heads import check_head


def test_a_head_of_another_length_is_refused():
    head = LinearHead(np.ones((2, 5)), np.arange(2))
    with pytest.raises(HeadError, match="length 5, the backbone gives 6"):
        check_head(head, 6, np.array([0, 1]))


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ([0, 1], "2 only in the data"),
        ([0, 1, 2, 3], "3 only in the head"),
        (["a", "b"], "'a', 'b'"),
    ],
)
def test_a_head_of_other_classes_is_refused_and_the_difference_told(classes, text):
    head = LinearHead(np.ones((len(classes), 6)), np.array(classes))
    with pytest.raises(HeadError, match=text):
        check_head(head, 6, np.array([0, 1, 2]))
