import numpy as np

from fedcof.experiments.features import load_features


def test_a_table_of_features_needs_no_backbone(tmp_path):
    features = np.arange(20, dtype=np.float32).reshape(10, 2)
    np.savez(tmp_path / "own.npz", features=features, labels=[0, 1] * 5, user=[7] * 10)
    loaded = load_features(f"table:{tmp_path / 'own.npz'}", "none")
    assert (len(loaded.train.labels), len(loaded.test.labels)) == (8, 2)
    assert loaded.train.columns["user"].tolist() == [7] * 8
    assert loaded.images is None
