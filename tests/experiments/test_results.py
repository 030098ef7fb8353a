import json

import pytest

from fedcof.data import ByColumn, ClassWise, Dirichlet
from fedcof.errors import ResultsFormatError
from fedcof.experiments import Results, Row, Skipped, partition_name


def test_a_row_is_known_by_experiment_seed_and_setting(tmp_path):
    row = Row("a", 0, {"method": "fedcof", "shrinkage": 0.1}, {"accuracy": 0.5})
    Results(tmp_path).append(row)
    saved = Results(tmp_path)
    assert Row("a", 0, {"shrinkage": 0.1, "method": "fedcof"}) in saved
    for other in (
        Row("b", 0, row.setting),
        Row("a", 1, row.setting),
        Row("a", 0, row.setting | {"short_rounds": 2}),
    ):
        assert other not in saved
    [read] = saved.rows()
    assert read.measured == row.measured


def test_rows_of_a_short_run_are_not_those_of_the_whole(tmp_path):
    results = Results(tmp_path)
    whole, short = Row("a", 0, {}), Row("a", 0, {"short_rounds": 2})
    for row in (whole, short):
        results.append(row)
    assert results.rows("a") == [whole]
    assert results.rows("a", 2) == [short]
    assert results.rows() == [whole, short]


def test_rows_of_0_1_0_are_refused_with_the_version(tmp_path):
    flat = {"experiment": "table1", "dataset": "cifar100", "seed": 0, "accuracy": 0.41}
    flat |= {"versions": {"fedcof": "0.1.0"}}
    (tmp_path / "results.jsonl").write_text(json.dumps(flat) + "\n")
    with pytest.raises(ResultsFormatError, match=r"line 1, was written by fedcof 0\.1\.0.*folder"):
        Results(tmp_path)


def test_skipped_settings_of_0_1_0_are_refused_with_the_version(tmp_path):
    (tmp_path / "skipped.json").write_text('{"table1": [["cars", "vit-b-16", "not there"]]}')
    with pytest.raises(ResultsFormatError, match=r"skipped\.json was written by fedcof 0\.1\.0"):
        Results(tmp_path).skipped()


def test_skipped_settings_of_0_1_0_are_refused_before_the_run_and_not_after_it(tmp_path):
    (tmp_path / "skipped.json").write_text('{"table1": [["cars", "vit-b-16", "not there"]]}')
    with pytest.raises(ResultsFormatError, match=r"skipped\.json was written by fedcof 0\.1\.0"):
        Results(tmp_path)


@pytest.mark.parametrize("line", ["[1, 2]", "garbage", '"text"'])
def test_a_line_that_is_no_row_is_refused_by_its_number(tmp_path, line):
    results = Results(tmp_path)
    results.append(Row("a", 0, {}))
    with results.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ResultsFormatError, match=r"results\.jsonl, line 2, is no row of results"):
        Results(tmp_path)


def test_what_is_skipped_replaces_what_the_last_run_of_the_experiment_left(tmp_path):
    results = Results(tmp_path)
    first, again = (Skipped("a", None, "set", "net", reason) for reason in ("gone", "broken"))
    other, short = Skipped("b", None, "set", "net", "gone"), Skipped("a", 2, "set", "net", "gone")
    for entry in (first, other, short):
        results.skip(entry.experiment, entry.short_rounds, [entry])
    results.skip("a", None, [again])
    assert results.skipped() == [other, short, again]
    results.skip("a", None, [])
    assert results.skipped() == [other, short]


def test_partitions_of_two_schemes_have_two_names():
    schemes = (Dirichlet(5, 0.1), ClassWise(5, 0.1), ByColumn("user"))
    assert len({partition_name({"dataset": "set", **scheme.columns()}) for scheme in schemes}) == 3
