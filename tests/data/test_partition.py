import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.data import by_column, describe_partition, dirichlet, hsu_dirichlet, iid

CIFAR_100 = np.repeat(np.arange(100), 500)


def sizes(partition):
    return np.bincount(partition.assignment, minlength=len(partition.client_ids)).tolist()


def num_means(partition, labels):
    """The paper's M: pairs of a client and a class that it holds."""
    return len(np.unique(np.stack([partition.assignment, labels]), axis=1).T)


def test_dirichlet_gives_the_papers_number_of_means_on_cifar_100():
    # The paper has 2,870. One seed's M scatters around the mean with a standard deviation of about
    # 50 (2,802 to 2,973 in 20 seeds), the mean of ten seeds with a third of that.
    partitions = [dirichlet(CIFAR_100, 100, 0.1, seed=seed) for seed in range(10)]
    assert 2800 <= np.mean([num_means(p, CIFAR_100) for p in partitions]) <= 2950


def test_dirichlet_follows_the_mix_while_nothing_runs_out():
    # One client of two takes half of two classes: its share of the first class is that of its
    # mix, whose law at alpha 1 is uniform on [0, 1].
    labels = np.repeat([0, 1], 50)
    first = [np.mean(dirichlet(labels, 2, 1.0, seed=s).assignment[:50] == 0) for s in range(2000)]
    expected = np.linspace(0.1, 0.9, 9)  # quantiles; each has a standard error below 0.0112
    np.testing.assert_allclose(np.quantile(first, expected), expected, atol=0.05)


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    num_clients=st.integers(1, 70),
    alpha=st.floats(1e-300, 1e300),
    seed=st.integers(0, 2**32),
)
def test_dirichlet_deals_every_sample_to_clients_of_equal_size(labels, num_clients, alpha, seed):
    held = sizes(dirichlet(labels, num_clients, alpha, seed=seed))
    assert len(held) == num_clients
    assert sum(held) == len(labels)
    assert held == sorted(held, reverse=True)
    assert held[0] - held[-1] <= 1


@pytest.mark.parametrize("alpha", [1e-6, 1e-300])
def test_a_tiny_alpha_gives_hardly_more_than_one_class_a_client(alpha):
    partition = dirichlet(CIFAR_100, 100, alpha, seed=0)
    assert num_means(partition, CIFAR_100) <= 110


def test_a_large_alpha_gives_every_class_to_nearly_every_client():
    labels = np.repeat([0, 1], 5000)
    assert num_means(dirichlet(labels, 10, 1e6, seed=0), labels) == 20


def test_samples_of_a_class_are_shuffled():
    assignment = dirichlet(np.zeros(1000), 2, 1.0, seed=0).assignment
    assert 0 < assignment[:500].sum() < 500


def test_labels_may_be_strings():
    labels = np.array(["cat", "dog"] * 10)
    numbers = np.array([0, 1] * 10)
    np.testing.assert_array_equal(
        dirichlet(labels, 3, 0.5, seed=0).assignment, dirichlet(numbers, 3, 0.5, seed=0).assignment
    )


@pytest.mark.parametrize(
    "deal",
    [
        lambda s: dirichlet([0, 1] * 20, 4, 0.5, seed=s),
        lambda s: hsu_dirichlet([0, 1] * 20, 4, 0.5, seed=s),
        lambda s: iid(40, 4, seed=s),
    ],
)
def test_a_seed_makes_the_partition(deal):
    first, again, other = deal(0), deal(np.random.default_rng(0)), deal(1)
    np.testing.assert_array_equal(first.assignment, again.assignment)
    assert not np.array_equal(first.assignment, other.assignment)


def test_leftover_samples_go_to_the_first_clients_and_it_is_said():
    partition = iid(11, 3, seed=0)
    assert sizes(partition) == [4, 4, 3]
    assert partition.notes == ("the first 2 clients have 4 samples each, the others 3",)


def test_more_clients_than_samples_leaves_clients_empty_and_says_so():
    partition = dirichlet([0, 1, 1], 5, 0.1, seed=0)
    assert sizes(partition) == [1, 1, 1, 0, 0]
    assert partition.notes == ("3 samples for 5 clients: the last 2 clients have none",)


def test_a_partition_that_comes_out_even_has_no_notes():
    assert iid(12, 3, seed=0).notes == ()


def test_the_alphabetical_order_of_the_ids_is_that_of_the_clients():
    ids = iid(12, 12, seed=0).client_ids
    assert ids[:2] == ("00", "01")
    assert sorted(ids) == list(ids)


def test_iterating_gives_each_client_its_rows():
    partition = by_column(["b", "a", "b"])
    rows = {client: rows.tolist() for client, rows in partition}
    assert rows == {"a": [1], "b": [0, 2]}


def test_iterating_includes_clients_without_samples():
    assert [len(rows) for _, rows in iid(1, 3, seed=0)] == [1, 0, 0]


def test_a_column_of_numbers_is_sorted_as_numbers():
    partition = by_column(np.array([10, 9, 10]))
    assert partition.client_ids == ("9", "10")
    assert partition.assignment.tolist() == [1, 0, 1]


def test_a_column_may_be_an_object_array():
    assert by_column(np.array(["x", "y"], dtype=object)).client_ids == ("x", "y")


@pytest.mark.parametrize("hole", [None, float("nan"), 1.5])
def test_a_hole_in_the_column_names_its_row(hole):
    with pytest.raises(ValueError, match="row 1 of the client column"):
        by_column(np.array(["x", hole], dtype=object))


@pytest.mark.parametrize("column", [[], [["x"]]])
def test_a_column_of_another_shape_is_refused(column):
    with pytest.raises(ValueError, match="1-D and not empty"):
        by_column(column)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), 1e308])
def test_an_alpha_that_is_no_concentration_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be positive and finite"):
        dirichlet(np.arange(100), 2, alpha, seed=0)


def test_no_samples_and_no_clients_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        dirichlet([], 2, 0.1, seed=0)
    with pytest.raises(ValueError, match="at least 1 client"):
        iid(3, 0, seed=0)
    with pytest.raises(ValueError, match="1-D"):
        dirichlet([[0, 1]], 2, 0.1, seed=0)


def test_class_wise_mixes_follow_their_law():
    # A client of two gets a share of a class that is uniform on [0, 1] at alpha 1.
    labels = np.repeat([0, 1], 500)
    first = [
        np.mean(hsu_dirichlet(labels, 2, 1.0, seed=s).assignment[:500] == 0) for s in range(2000)
    ]
    expected = np.linspace(0.1, 0.9, 9)  # quantiles; each has a standard error below 0.0112
    np.testing.assert_allclose(np.quantile(first, expected), expected, atol=0.05)


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    num_clients=st.integers(1, 70),
    alpha=st.floats(1e-2, 1e6),
    seed=st.integers(0, 2**32),
)
def test_class_wise_mixes_deal_every_sample_to_a_client(labels, num_clients, alpha, seed):
    partition = hsu_dirichlet(labels, num_clients, alpha, seed=seed)
    held = sizes(partition)
    assert len(held) == num_clients
    assert sum(held) == len(labels)
    assert bool(partition.notes) == (0 in held)


def test_class_wise_a_large_alpha_gives_every_client_its_share():
    assert sizes(hsu_dirichlet(np.repeat([0, 1], 1000), 4, 1e9, seed=0)) == [500] * 4


def test_class_wise_a_client_without_samples_is_said():
    assert hsu_dirichlet([0], 3, 1.0, seed=0).notes == ("2 of 3 clients have no samples",)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf")])
def test_class_wise_an_alpha_that_is_no_concentration_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be positive and finite"):
        hsu_dirichlet([0, 1], 2, alpha, seed=0)


def test_class_wise_no_samples_and_no_clients_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        hsu_dirichlet([], 2, 0.1, seed=0)
    with pytest.raises(ValueError, match="at least 1 client"):
        hsu_dirichlet([0], 0, 0.1, seed=0)


def test_a_partition_is_described_by_the_papers_numbers():
    labels = ["cat", "cat", "dog", "eel", "cat"]
    described = describe_partition(labels, by_column(["a", "a", "a", "b", "b"]))
    assert described.clients == 2
    assert described.num_means == 4
    assert described.samples_per_client == (2, 2.5, 3)
    assert described.classes_per_client == (2, 2, 2)
    assert described.clients_per_class == (1, 4 / 3, 2)


def test_clients_without_samples_are_not_described():
    described = describe_partition([0, 0], dirichlet([0, 0], 5, 1.0, seed=0))
    assert described.clients == 2
    assert described.samples_per_client[0] == 1
