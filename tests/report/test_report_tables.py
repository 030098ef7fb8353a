import pytest

from fedcof import Fed3R, FedCOF, FedNCM
from fedcof.data import Dirichlet
from fedcof.experiments import EXPERIMENTS, Experiment, Paper, Row, SettingGrid, one_round
from fedcof.report.latex import as_latex
from fedcof.report.tables import label_title, method_title, number, signed, tabulate

EXPERIMENT = Experiment(
    "tiny",
    "A title with 5 % & more",
    (
        SettingGrid(
            ("one", "two"), ("net",), (Dirichlet(3, 0.1),), one_round(FedNCM(), FedCOF(0.1))
        ),
    ),
    metrics=("accuracy", "formula_bytes"),
    paper=(Paper("accuracy", ("dataset", "method"), {("one", "fedcof"): (50.0, 0.5)}),),
)


@pytest.fixture
def table():
    rows = [
        Row(
            "tiny",
            seed,
            setting.columns(),
            {"accuracy": 0.40 + 0.02 * seed, "formula_bytes": 2_500_000},
        )
        for setting in EXPERIMENT.settings()
        for seed in (0, 1)
    ]
    return tabulate(EXPERIMENT, rows)


def test_seeds_become_mean_and_sample_deviation(table):
    value = table.lines[0].values["accuracy"]
    assert value.mean == pytest.approx(41.0)
    assert value.deviation == pytest.approx(2**0.5)


def test_papers_number_stands_beside_its_own_cell_only(table):
    found = [line.values["accuracy"].paper for line in table.lines]
    assert found == [None, 50.0, None, None]
    value = table.lines[1].values["accuracy"]
    assert value.difference == pytest.approx(-9.0)
    assert value.paper_deviation == 0.5


def test_columns_that_do_not_differ_are_said_once(table):
    assert table.columns == ("dataset", "method")
    assert table.common == "net, 3 clients, α 0.1"
    assert table.titles() == [
        "data set",
        "method",
        "accuracy (%)",
        "paper",
        "difference",
        "sent (MB)",
    ]


def test_cells_say_a_dash_where_the_paper_says_nothing(table):
    assert table.cells(table.lines[0]) == ["one", "FedNCM", "41.0 ± 1.4", "–", "–", "2.5 ± 0.0"]
    assert table.cells(table.lines[1])[2:5] == ["41.0 ± 1.4", "50.0 ± 0.5", "−9.0"]


def test_one_seed_has_no_deviation():
    setting = EXPERIMENT.settings()[0].columns()
    table = tabulate(EXPERIMENT, [Row("tiny", 0, setting, {"accuracy": 0.5, "formula_bytes": 0})])
    assert table.lines[0].values["accuracy"].deviation is None
    assert table.cells(table.lines[0])[-2:] == ["50.0", "0.0"]


def test_lines_that_would_read_alike_say_in_what_they_differ():
    grid = SettingGrid(("one",), ("net",), (Dirichlet(3, 0.1),), one_round(Fed3R(0.1), Fed3R(1.0)))
    experiment = Experiment("ridges", "", (grid,))
    rows = [
        Row("ridges", 0, setting.columns(), {"accuracy": 0.5}) for setting in experiment.settings()
    ]
    methods = [line.shown["method"] for line in tabulate(experiment, rows).lines]
    assert methods == ["Fed3R, ridge 0.1", "Fed3R, ridge 1.0"]


def test_method_says_what_tells_it_from_its_neighbours():
    setting = {"method": "fedcof", "shrinkage": 0.1, "scatter": "both", "means_per_class": 2}
    assert method_title(setting) == "FedCOF, γ 0.1, G_btw + G_with, 2 means"
    assert method_title({"method": "my-own"}) == "my-own"


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("fedcof+fedavg-lp", "FedCOF + FedAvg-LP"),
        ("fedcof-oracle+fedadam", "FedCOF oracle + FedAdam"),
        ("fedprox-pt", "FedProx-PT"),
        ("fedavg (not pre-trained)", "FedAvg (not pre-trained)"),
        ("my-own+pfpt", "my-own + PFPT"),
    ],
)
def test_run_of_training_is_named_by_where_it_starts_and_what_it_trains(label, title):
    assert method_title({"method": label}) == title


def test_every_method_of_the_paper_has_a_title():
    settings = [one.columns() for known in EXPERIMENTS.values() for one in known.settings()]
    labels = {setting["method"] for setting in settings}
    assert [label for label in labels if label_title(label)[0].islower()] == []


def test_numbers_have_the_papers_digits():
    assert number(3015.26, "formula_bytes") == "3,015.3"
    assert number(6.3e3, "condition_within") == "6.3e+03"
    assert signed(0.25, "accuracy") == "+0.2"
    assert signed(None, "accuracy") == "–"


def test_latex_escapes_and_has_as_many_columns_as_titles(table):
    latex = as_latex(EXPERIMENT, table)
    assert r"A title with 5 \% \& more" in latex
    assert r"\begin{tabular}{llrrrr}" in latex
    assert r"one & FedCOF, $\gamma$ 0.1 & 41.0 $\pm$ 1.4 & 50.0 $\pm$ 0.5 & $-$9.0" in latex
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")]
    assert body.count(r"\\") == 4


def test_a_strategy_without_a_title_is_named_once():
    # It once read "FedCOF + fedlion-lp-LP".
    assert label_title("fedcof+fedlion-lp") == "FedCOF + fedlion-LP"
