import numpy as np

from fedcof import FedNCM


def test_the_weight_is_the_mean_of_all_samples_at_length_one(blobs, deal):
    features, labels, _ = blobs
    head = FedNCM().solve(deal(FedNCM(), *blobs))
    means = np.stack([features[labels == label].mean(axis=0) for label in range(4)])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(head.weight, expected, rtol=1e-12)
    assert head.bias is None


def test_two_clients_are_weighed_by_their_counts():
    method = FedNCM()
    summaries = [
        method.summarize([[0.0, 1.0], [5.0, 0.0]], ["a", "b"], client_id="1"),
        method.summarize([[8.0, 5.0], [0.0, 3.0], [4.0, 3.0]], ["a", "a", "a"], client_id="2"),
    ]
    np.testing.assert_allclose(method.solve(summaries).weight, [[0.7071067811865475] * 2, [1, 0]])


def test_a_mean_of_zero_stays_and_wins_against_negative_scores_only():
    head = FedNCM().solve([FedNCM().summarize([[0.0, 0.0], [1.0, 0.0]], [0, 1])])
    assert head.weight.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert head.predict([[1.0, 0.0], [-1.0, 0.0]]).tolist() == [1, 0]
