import warnings

import numpy as np
import pytest

import fedcof
from fedcof import HeadError, LinearHead, Provenance, SingularScatterWarning, SummaryError
from fedcof.heads import normalize_rows, solve_head
from fedcof.wire import decode, encode


@pytest.fixture
def head():
    return LinearHead(np.array([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0]]), np.array(["cat", "dog"]))


class TestSolving:
    def test_a_definite_system_is_solved_and_the_rows_have_length_one(self, rng):
        root, sums = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
        gram = root.T @ root
        expected = np.linalg.solve(gram, sums.T).T
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(solve_head(gram, sums), expected, rtol=1e-10)

    def test_a_singular_system_gets_the_minimum_norm_solution_and_a_warning(self, rng):
        root, sums = rng.normal(size=(2, 4)), rng.normal(size=(3, 4))
        gram = root.T @ root
        with pytest.warns(SingularScatterWarning, match="rank 2 of 4: the minimum-norm solution"):
            weight = solve_head(gram, sums)
        expected = sums @ np.linalg.pinv(gram, rcond=1e-14, hermitian=True)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(weight, expected, rtol=1e-9, atol=1e-12)

    def test_a_system_that_is_definite_by_rounding_alone_counts_as_singular(self):
        with pytest.warns(SingularScatterWarning, match="rank 1 of 2"):
            weight = solve_head(np.diag([1.0, 1e-18]), np.array([[3.0, 4.0]]))
        np.testing.assert_array_equal(weight, [[1.0, 0.0]])

    def test_an_indefinite_system_leaves_out_the_negative_directions(self):
        with pytest.warns(SingularScatterWarning, match="rank 1 of 2"):
            weight = solve_head(np.diag([2.0, -1.0]), np.array([[3.0, 4.0]]))
        np.testing.assert_array_equal(weight, [[1.0, 0.0]])

    def test_the_warning_points_at_the_line_that_called_solve(self):
        sites = [fedcof.summarize(rows, [0, 1]) for rows in np.split(np.eye(4), 2)]
        with pytest.warns(SingularScatterWarning) as caught:
            fedcof.FedCOF(shrinkage=0.0).solve(sites)
        assert caught[0].filename == __file__

    def test_a_definite_system_gives_no_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            solve_head(np.eye(2), np.ones((1, 2)))

    def test_a_row_of_zeros_stays(self):
        rows = normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
        np.testing.assert_array_equal(rows, [[0.6, 0.8], [0.0, 0.0]])


class TestPredicting:
    def test_the_label_of_the_highest_score_is_predicted(self, head):
        assert head.decision_function([[1.0, 1.0, 1.0]]).tolist() == [[3.0, 0.5]]
        assert head.predict([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]).tolist() == ["cat", "dog"]

    def test_the_bias_is_added(self, head):
        biased = LinearHead(head.weight, head.classes, bias=np.array([0.0, 9.0]))
        assert biased.decision_function([[1.0, 1.0, 1.0]]).tolist() == [[3.0, 9.5]]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
    def test_features_of_any_number_type_are_taken(self, head, dtype):
        assert head.predict(np.array([[0, 1, 0]], dtype=dtype)).tolist() == ["dog"]

    def test_the_score_is_the_share_of_right_labels(self, head):
        features = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
        assert head.score(features, ["cat", "dog", "cat"]) == pytest.approx(2 / 3)

    @pytest.mark.parametrize("shape", [(1, 2), (3,)])
    def test_features_of_another_length_are_refused(self, head, shape):
        with pytest.raises(HeadError, match=r"this head takes \(n, 3\)"):
            head.predict(np.ones(shape))

    def test_features_that_are_not_finite_are_refused_and_not_predicted_as_the_first_class(
        self, head
    ):
        with pytest.raises(HeadError, match="NaN or infinity, first in row 1"):
            head.predict([[0.0, 0.0, 1.0], [np.nan, 0.0, 1.0]])

    def test_labels_of_another_length_have_no_score(self, head):
        with pytest.raises(HeadError, match="1 labels for 2 features"):
            head.score(np.ones((2, 3)), ["cat"])

    def test_a_column_of_labels_has_no_score(self, head):
        # NumPy would compare every label with every prediction.
        with pytest.raises(SummaryError, match="1-d"):
            head.score(np.ones((2, 3)), [["cat"], ["dog"]])

    def test_no_samples_have_no_score(self, head):
        with pytest.raises(HeadError, match="0 labels for 0 features"):
            head.score(np.ones((0, 3)), [])

    def test_labels_of_another_type_have_no_score(self, head):
        with pytest.raises(HeadError, match="int64, but the classes of this head are <U3"):
            head.score(np.ones((1, 3)), [1])


class TestChecking:
    @pytest.mark.parametrize(
        ("weight", "classes"),
        [(np.ones((2, 3)), [0]), (np.ones(3), [0, 1, 2]), (np.ones((0, 3)), [])],
    )
    def test_a_weight_that_does_not_fit_the_classes_is_refused(self, weight, classes):
        with pytest.raises(HeadError, match="expected"):
            LinearHead(weight, np.array(classes))

    def test_a_bias_that_does_not_fit_is_refused(self, head):
        with pytest.raises(HeadError, match="bias of shape"):
            LinearHead(head.weight, head.classes, bias=np.ones(3))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_head_that_is_not_finite_is_refused(self, head, bad):
        with pytest.raises(HeadError, match="NaN or infinity"):
            LinearHead(np.full((2, 3), bad), head.classes)
        with pytest.raises(HeadError, match="NaN or infinity"):
            LinearHead(head.weight, head.classes, bias=np.array([0.0, bad]))


class TestSaving:
    @pytest.mark.parametrize("classes", [[3, 70_000], ["cat", "Straße 🐕"]])
    @pytest.mark.parametrize("bias", [None, np.array([0.25, -1.0])])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_loaded_head_is_the_saved_one(self, tmp_path, rng, classes, bias, dtype):
        provenance = Provenance("fedcof", {"shrinkage": 0.5, "scatter": "within"}, 3, 40, 320)
        head = LinearHead(rng.random((2, 5), dtype), np.array(classes), bias, provenance)
        head.save(tmp_path / "head.safetensors")
        loaded = LinearHead.load(tmp_path / "head.safetensors")
        assert loaded.weight.dtype == dtype
        np.testing.assert_array_equal(loaded.weight, head.weight)
        assert loaded.classes.tolist() == classes
        assert (loaded.bias is None) == (bias is None)
        if bias is not None:
            np.testing.assert_array_equal(loaded.bias, bias)
        assert loaded.provenance == provenance

    def test_a_head_without_provenance_stays_so(self, head, tmp_path):
        head.save(tmp_path / "head")
        assert LinearHead.load(tmp_path / "head").provenance is None

    def test_one_head_is_one_file_to_the_last_byte(self, head, tmp_path):
        contents = set()
        for name in "abcde":
            head.save(tmp_path / name)
            contents.add((tmp_path / name).read_bytes())
        assert len(contents) == 1

    def test_hyperparameters_of_numpy_types_can_be_saved(self, tmp_path):
        # GridSearchCV over np.arange sets np.int64.
        sites = [fedcof.summarize(rows, [0, 1]) for rows in np.split(np.eye(4), 2)]
        method = fedcof.FedCOF(shrinkage=np.float32(0.5), means_per_class=np.int64(1))
        method.solve(sites).save(tmp_path / "head")
        loaded = LinearHead.load(tmp_path / "head")
        assert loaded.provenance.hyperparameters["means_per_class"] == 1
        assert loaded.provenance.hyperparameters["shrinkage"] == 0.5

    def test_a_file_cut_anywhere_is_refused_and_named(self, head, tmp_path):
        path = tmp_path / "head.safetensors"
        head.save(path)
        whole = path.read_bytes()
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            with pytest.raises(HeadError, match=r"head\.safetensors is not a whole head"):
                LinearHead.load(path)

    def test_a_summary_is_not_a_head(self, tmp_path):
        fedcof.summarize(np.eye(2), [0, 1]).save(tmp_path / "summary")
        with pytest.raises(HeadError, match="not a head of fedcof but 'class-means'"):
            LinearHead.load(tmp_path / "summary")

    @pytest.mark.parametrize(
        ("arrays", "metadata"),
        [
            ({"weight": np.ones((2, 3))}, {}),
            ({"weight": np.ones((2, 3))}, {"classes": 2}),
            ({"weight": np.ones((2, 3))}, {"classes": [0]}),
            ({"weight": np.ones((2, 3)), "more": np.ones(1)}, {"classes": [0, 1]}),
            ({"weight": np.ones((2, 3)) * np.nan}, {"classes": [0, 1]}),
            ({}, {"classes": [0, 1]}),
            ({"weight": np.ones((2, 3))}, {"classes": [0, 1], "provenance": {"colour": "red"}}),
        ],
    )
    def test_a_file_with_other_content_is_refused_and_named(self, tmp_path, arrays, metadata):
        path = tmp_path / "odd.safetensors"
        path.write_bytes(encode(arrays, {"kind": "head-1", **metadata}))
        with pytest.raises(HeadError, match=r"odd\.safetensors"):
            LinearHead.load(path)

    def test_a_file_that_is_not_there_is_not_called_broken(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            LinearHead.load(tmp_path / "nothing")


class TestProbabilities:
    def test_a_head_of_log_odds_has_the_softmax_of_its_scores(self):
        head = LinearHead(np.log([[4.0], [1.0]]), np.array([0, 1]), probabilistic=True)
        np.testing.assert_allclose(head.predict_proba([[1.0]]), [[0.8, 0.2]])

    def test_a_least_squares_head_refuses_and_says_which_heads_have_them(self, head):
        with pytest.raises(HeadError, match="no scale, so they give no probabilities"):
            head.predict_proba(np.ones((1, head.dim)))

    def test_ccvr_and_training_say_that_theirs_are(self, tmp_path, rng):
        summary = fedcof.CCVR().summarize(rng.normal(size=(9, 2)), [0, 1, 2] * 3)
        head = fedcof.CCVR(samples_per_class=5).solve([summary])
        assert head.probabilistic
        head.save(tmp_path / "head")
        assert LinearHead.load(tmp_path / "head").probabilistic


def test_a_folder_or_a_photograph_given_for_a_head_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(HeadError, match="is a folder; give the file of the head in it"):
        LinearHead.load(tmp_path)
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(100))
    with pytest.raises(HeadError, match=r"photo\.jpg is not a whole head: .*`fedcof solve`"):
        LinearHead.load(tmp_path / "photo.jpg")


@pytest.mark.parametrize(
    "changed", [{"classes": [[0], [1, 2]]}, {"provenance": "bytes"}, {"provenance": ["bytes"]}]
)
def test_a_head_with_odd_metadata_is_refused_with_its_file(head, tmp_path, changed):
    path = tmp_path / "head.safetensors"
    head.save(path)
    arrays, metadata = decode(path.read_bytes())
    path.write_bytes(encode(arrays, metadata | changed))
    with pytest.raises(HeadError, match=r"head\.safetensors is not a whole head"):
        LinearHead.load(path)
