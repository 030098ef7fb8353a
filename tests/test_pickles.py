import pickle

import numpy as np
import pytest

from fedcof.pickles import load_arrays


class _Malicious:
    def __reduce__(self):
        return exec, ("print('code ran')",)  # Ray puts a function of its own in the place of print


def test_containers_and_arrays_are_read():
    content = {"data": np.arange(3), "labels": [1, 2], "name": "x", "raw": b"\xff"}
    loaded = load_arrays(pickle.dumps(content))
    np.testing.assert_array_equal(loaded.pop("data"), [0, 1, 2])
    assert loaded == {"labels": [1, 2], "name": "x", "raw": b"\xff"}


def test_a_pickle_of_python_2_is_read():
    # pickle.dumps({"labels": [7], "data": numpy.arange(2, dtype="uint8")}, 2), in Python 2.7
    content = (
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03K\x07aU\x04dataq\x04cnumpy.core.multiarray\n"
        b"_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01K\x02\x85cnumpy\n"
        b"dtype\nq\x08U\x02u1K\x00K\x01\x87Rq\t(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x02\x00\x01tbu."
    )
    loaded = load_arrays(content)
    assert loaded["labels"] == [7]
    np.testing.assert_array_equal(loaded["data"], np.array([0, 1], np.uint8))


def test_code_is_refused_and_does_not_run(capsys):
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.exec; only plain containers"):
        load_arrays(pickle.dumps([_Malicious()]))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps(np.arange(9))[:-5]])
def test_a_damaged_pickle_is_called_so(content):
    with pytest.raises(pickle.UnpicklingError):
        load_arrays(content)
