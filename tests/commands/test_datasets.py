import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from fedcof.cli import app


def fedcof(*arguments):
    result = CliRunner().invoke(app, arguments, env={"FEDCOF_DATA": "", "COLUMNS": "200"})
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def folder(tmp_path):
    for first, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for i in range(5):
            Image.new("L", (2, 2), 5 * first + i).save(tmp_path / name / f"{i}.png")
    return tmp_path


def test_all_data_sets_are_listed_with_their_size():
    output = fedcof("datasets", "list").output
    for word in ("cifar10 ", "pacs", "24,000", "1,203", "domain", "user"):
        assert word in output


def test_a_data_set_is_described_by_what_has_to_be_where():
    result = fedcof("datasets", "describe", "cub200")
    assert result.exit_code == 0
    for word in ("CUB_200_2011/images.txt", "https://www.vision", "bentrevett", "official"):
        assert word in result.output


def test_where_a_set_is_here_its_partitions_are_described(folder):
    result = fedcof("datasets", "describe", f"folder:{folder}", "--clients", "2")
    assert result.exit_code == 0, result.output
    [iid] = [line for line in result.output.splitlines() if "iid" in line]
    assert [word for word in iid.split() if word.isdigit()][:2] == ["2", "4"]


def test_a_description_as_json_is_one_document(folder):
    result = fedcof("datasets", "describe", f"folder:{folder}", "--clients", "2", "--json")
    document = json.loads(result.stdout)
    assert document["training"] == 8
    [iid] = [row for row in document["partitions"] if "iid" in row["partition"]]
    assert (iid["clients"], iid["samples a client"]) == (2, [4, 4, 4])
    named = json.loads(fedcof("datasets", "describe", "cub200", "--json").stdout)
    assert "CUB_200_2011/images.txt" in " ".join(named["in the data folder"])


def test_a_path_is_no_markup(folder):
    path = folder.rename(folder.parent / "[bold]x[]")
    result = fedcof("datasets", "describe", f"folder:{path}")
    assert "[bold]x[]: 8 training images" in " ".join(result.output.split())
    assert "[bold]x[]" in fedcof("datasets", "check", f"folder:{path}").output


def test_what_comes_with_fedcof_needs_no_folder():
    result = fedcof("datasets", "describe", "fashion-mnist")
    assert "7,500 training images" in result.output


def test_a_set_in_order_passes_the_check(folder):
    result = fedcof("datasets", "check", f"folder:{folder}")
    assert result.exit_code == 0
    assert "8 training images, 2 test images, 2 classes; all images can be read" in result.output


def test_the_check_names_every_image_that_cannot_be_read(folder):
    for name in ("cat/1.png", "dog/3.png"):
        (folder / name).write_text(f"broken {name}")
    result = fedcof("datasets", "check", f"folder:{folder}")
    assert result.exit_code == 1
    assert "2 images cannot be read" in result.output
    assert f"{folder / 'cat' / '1.png'}: it is damaged" in result.output
    assert f"{folder / 'dog' / '3.png'}: it is damaged" in result.output


def test_a_set_that_is_not_there_is_an_error_in_words(tmp_path):
    result = fedcof("datasets", "check", "cars", "--data", str(tmp_path))
    assert result.exit_code == 1
    assert "cars is not in" in result.output
    assert "devkit/cars_train_annos.mat" in result.output


@pytest.mark.parametrize("command", ["describe", "check"])
def test_an_unknown_name_lists_the_near_ones(command):
    result = fedcof("datasets", command, "cifar")
    assert result.exit_code == 1
    assert "did you mean cifar10 or cifar100" in result.output
