import numpy as np
import pytest

from fedcof.experiments.features import is_features, load_features


def test_a_table_of_features_needs_no_backbone(tmp_path):
    features = np.arange(20, dtype=np.float32).reshape(10, 2)
    np.savez(tmp_path / "own.npz", features=features, labels=[0, 1] * 5, user=[7] * 10)
    loaded = load_features(f"table:{tmp_path / 'own.npz'}", "none")
    assert (len(loaded.train.labels), len(loaded.test.labels)) == (8, 2)
    assert loaded.train.columns["user"].tolist() == [7] * 8
    assert loaded.images is None


@pytest.mark.parametrize("kind", ["table", "parquet"])
def test_features_are_known_by_what_the_data_are_and_not_by_their_prefix(kind, tmp_path):
    # A table of embeddings was run once under the name of each of the paper's backbones.
    path = tmp_path / "own.csv"
    path.write_text("a,b,label\n" + "".join(f"{row}.5,1.5,{row % 2}\n" for row in range(10)))
    assert is_features(f"{kind}:{path}")


def test_a_data_set_of_the_paper_is_images_and_is_not_looked_for():
    assert not is_features("cifar100")
    assert not is_features("")
