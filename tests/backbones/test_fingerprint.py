"""The fingerprint follows architecture, weights and preprocessing, and nothing else."""

from fedcof.backbones import Preprocessing
from fedcof.backbones.fingerprint import files_digest, fingerprint_of, model_digest


def test_each_part_changes_the_fingerprint():
    parts = [
        (Preprocessing(), b"weights", "resnet18"),
        (Preprocessing(size=64), b"weights", "resnet18"),
        (Preprocessing(), b"others", "resnet18"),
        (Preprocessing(), b"weights", "resnet50"),
    ]
    assert len({fingerprint_of(*part) for part in parts}) == 4


def test_equal_preprocessing_has_one_fingerprint_however_its_numbers_are_written():
    whole, real = Preprocessing(mean=(1, 2, 3)), Preprocessing(mean=(1.0, 2.0, 3.0))
    assert fingerprint_of(whole, b"") == fingerprint_of(real, b"")


def test_files_are_told_apart_by_content_and_order_and_not_by_name(tmp_path):
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (tmp_path / name for name in "abc")
    assert files_digest([a, c]) == files_digest([b, c]) != files_digest([c, a])


def test_a_model_has_one_digest_as_bytes_and_as_a_file(save_model):
    path = save_model()
    assert model_digest(path) == model_digest(path.read_bytes())
