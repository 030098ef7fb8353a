import io

from rich.console import Console

from fedcof.progress import progress_bar


def shown(total, steps):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, color_system=None)
    with progress_bar("Extracting features", total, unit="images", console=console) as advance:
        for step in steps:
            advance(step)
    return output.getvalue()


def test_the_bar_shows_what_is_done_how_much_and_how_fast():
    text = shown(10, [4, 6])
    assert "Extracting features" in text
    assert "10/10" in text
    assert "images/s" in text


def test_work_of_one_step_has_no_rate():
    text = shown(10, [10])
    assert "10/10" in text
    assert "images/s" not in text


def test_an_unknown_total_is_counted():
    assert "4/?" in shown(None, [4])


def test_standard_output_stays_clean(capsys):
    with progress_bar("Working", 1, unit="steps") as advance:
        advance(1)
    assert capsys.readouterr().out == ""
