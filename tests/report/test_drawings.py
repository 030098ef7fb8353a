import csv
from dataclasses import replace

import pytest
from tiny_experiments import EXPERIMENT, GRID, rows_of

from fedcof import FedCOF, FedNCM
from fedcof.data import Dirichlet
from fedcof.experiments import EXPERIMENTS, Experiment, SettingGrid, one_round
from fedcof.report.drawings import draw
from fedcof.report.rounds import average
from fedcof.report.tables import tabulate


def after(number, stage, accuracy, sent):
    return {"number": number, "stage": stage, "accuracy": accuracy, "formula_bytes": sent * 10**6}


TRAINED = [
    after(1, "training-free", 0.4, 1),
    after(2, "training-free", 0.5, 2),
    after(3, "training", 0.5, 2),  # the start, which sends nothing
    after(4, "training", 0.6, 5),
]


def drawings(experiment, rows):
    return draw(experiment, tabulate(experiment, rows))


def test_data_stands_beside_the_figure_as_csv():
    experiment = replace(EXPERIMENT, figure="communication")
    first, second = drawings(experiment, rows_of(experiment, seeds=2))
    rows = list(csv.DictReader(first.as_csv().splitlines()))
    assert [row["method"] for row in rows] == ["FedNCM", "FedCOF, γ 0.1"]
    assert [float(row["accuracy"]) for row in rows] == pytest.approx([41.0, 41.0])
    assert "over 2 seeds" in second.caption


def test_csv_has_no_column_of_which_nothing_is_known():
    experiment = replace(EXPERIMENT, figure="communication")
    header = drawings(experiment, rows_of(experiment))[1].as_csv().splitlines()[0]
    assert header == "method,sent_mb,accuracy"


@pytest.mark.parametrize("figure", ["communication", "rounds"])
def test_one_seed_has_no_deviation_in_words(figure):
    # It once said "one standard deviation over 1 seed".
    experiment = replace(EXPERIMENT, figure=figure)
    for drawing in drawings(experiment, rows_of(experiment, rounds=TRAINED)):
        assert "deviation" not in drawing.caption
        assert drawing.caption.endswith("One seed.")


def test_caption_says_which_participation_was_run():
    experiment = replace(EXPERIMENT, figure="rounds")
    rows = rows_of(experiment, rounds=TRAINED)
    for row in rows:
        row.setting["participation"] = 0.3
    over_rounds, against_sent, *_ = drawings(experiment, rows)
    for drawing in (over_rounds, against_sent):
        assert "30 % of the clients a round" in drawing.caption
        assert "star: where training starts" in drawing.caption


def test_accuracy_is_drawn_over_rounds_and_against_what_was_sent():
    experiment = replace(EXPERIMENT, figure="rounds")
    over_rounds, against_sent, *_ = drawings(experiment, rows_of(experiment, rounds=TRAINED))
    lines = [drawing.figure.axes[0].lines for drawing in (over_rounds, against_sent)]
    assert [line[0].get_xdata().tolist() for line in lines] == [[2, 3], [2, 5]]
    rows = list(csv.DictReader(over_rounds.as_csv().splitlines()))
    assert [row["stage"] for row in rows[:3]] == ["training-free", "training-free", "training"]


def test_means_received_are_drawn_once_whatever_the_shrinkage():
    accuracies, received = [], []
    for drawing in drawings(GRID, rows_of(GRID, means_received=3.0)):
        (received if "means received" in drawing.caption else accuracies).append(drawing)
    assert len(accuracies) == 2  # one a shrinkage
    (drawing,) = received
    assert drawing.figure.axes[0].get_ylabel() == "means received per class"
    assert list(drawing.data[0]) == [
        "means_per_class",
        "clients",
        "means_received",
        "deviation",
        "paper",
    ]


def test_shorter_seed_stays_at_its_last_value_and_stages_are_not_mixed():
    short = [row for row in TRAINED if row["number"] != 2]
    rows = [
        replace(row, measured={"rounds": rounds})
        for row, rounds in zip(rows_of(EXPERIMENT)[:2], (TRAINED, short), strict=True)
    ]
    found = average(rows)
    assert found.training_free == 2
    assert [after.round for after in found.rounds] == [1, 2, 3]
    assert [after.stage for after in found.rounds][-1] == "training"
    assert [after.accuracy for after in found.rounds] == pytest.approx([40, 45, 60])


def test_random_head_starts_at_round_zero_without_a_star():
    row = replace(rows_of(EXPERIMENT)[0], measured={"rounds": TRAINED[2:]})
    found = average([row])
    assert found.training_free == 0
    assert [after.round for after in found.rounds] == [0, 1]


def test_papers_figure_of_several_means_has_all_its_panels():
    experiment = EXPERIMENTS["add-ablation-left"]
    captions = [
        drawing.caption for drawing in drawings(experiment, rows_of(experiment, means_received=9.0))
    ]
    assert sum("means received per class" in caption for caption in captions) == 1
    assert sum("Hollow: the paper" in caption for caption in captions) == 1  # at the paper's γ


def test_the_frontier_has_a_panel_a_setting_and_stairs_that_no_method_is_beyond():
    procedures = one_round(FedNCM(), FedCOF(0.1), FedCOF(1.0))
    grid = SettingGrid(("one",), ("net",), (Dirichlet(3, 0.1), Dirichlet(9, 0.1)), procedures)
    experiment = Experiment(
        "tiny", "Far", (grid,), metrics=("accuracy", "wire_bytes"), figure="frontier"
    )
    measured = {"fedncm": (0.4, 1e6), "fedcof0.1": (0.3, 2e6), "fedcof1.0": (0.6, 3e6)}
    rows = []
    for row in rows_of(experiment):
        setting = row.setting
        accuracy, sent = measured[f"{setting['method']}{setting.get('shrinkage', '')}"]
        rows.append(
            replace(row, measured=row.measured | {"accuracy": accuracy, "wire_bytes": sent})
        )
    (drawing,) = drawings(experiment, rows)
    axes = drawing.figure.axes
    assert [each.get_title(loc="left") for each in axes] == [
        "one, 3 clients, α 0.1",
        "one, 9 clients, α 0.1",
    ]
    stairs = next(line for line in axes[0].lines if line.get_drawstyle() == "steps-post")
    assert stairs.get_xdata().tolist() == [1, 3, 3]
    assert stairs.get_ydata().tolist() == pytest.approx([40, 60, 60])
    assert [entry["wire_mb"] for entry in drawing.data] == [1, 2, 3] * 2
