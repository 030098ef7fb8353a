import numpy as np
import pytest

from fedcof import FedCOF, summarize
from fedcof.methods.fedcof_pooled import FedCOFPooled
from fedcof.summaries import ClassMeans, ordered

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")


def test_the_scatter_is_that_of_all_differences_over_their_number():
    # Class 0 has means 0 and 2 of 2 samples each, B = 4 over 1; class 1 has means 0, 1 and 2 of one
    # sample each, B = 2 over 2. Pooled: 6 over 3, for (4 - 1) + (3 - 1) degrees of freedom.
    parts = [
        ClassMeans(
            client_ids=(name,), classes=classes, counts=counts, means=np.array(means)[:, None]
        )
        for name, classes, counts, means in (
            ("a", [0, 1], [2, 1], [0.0, 0.0]),
            ("b", [0, 1], [2, 1], [2.0, 1.0]),
            ("c", [1], [1], [2.0]),
        )
    ]
    pooled = FedCOFPooled().pool(ordered(parts, ClassMeans))
    np.testing.assert_allclose(pooled.within_scatter, [[6 / 3 * 5]])
    np.testing.assert_allclose(FedCOF().pool(parts).within_scatter, [[4 * 3 + 1 * 2]])


def test_where_every_class_has_as_many_means_it_is_fedcof(rng):
    parts = [
        summarize(rng.normal(size=(8, 3)), [0] * 4 + [1] * 4, client_id=str(k)) for k in range(5)
    ]
    np.testing.assert_allclose(
        FedCOFPooled().solve(parts).weight, FedCOF().solve(parts).weight, rtol=1e-9
    )
