"""A client belongs to a key: what a SuperNode of another key says of it is not taken."""

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from grid_double import GridDouble, make_clients, run

from fedcof.errors import SettingError
from fedcof.federation.ownership import fingerprint, read_roster
from fedcof.federation.plan import Plan

pytestmark = pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")

PUBLIC = [ec.derive_private_key(number, ec.SECP384R1()).public_key() for number in (2, 3)]
SITE, OTHER = (key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in PUBLIC)
SITE_PUB, OTHER_PUB = (
    key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() for key in PUBLIC
)


def nodes():
    """Two honest SuperNodes; the second also names a client of the first, with other data."""
    clients, forged = make_clients(4), make_clients(1, seed=1)
    names = sorted(clients)
    first = {name: clients[name] for name in names[:2]}
    return first, {name: clients[name] for name in names[2:]} | forged


def test_a_client_belongs_to_the_key_that_named_it_first(tmp_path):
    first, second = nodes()
    grid = GridDouble({1: first, 2: second}, keys={1: SITE, 2: OTHER})
    _, report = run(grid, tmp_path)
    assert report.answered == {"c000", "c001", "c002", "c003"}
    assert report.shared == set()
    assert list(report.claimed) == ["c000"]
    assert report.claimed["c000"].startswith("SuperNode 2 may not answer for it: it belongs to the")
    assert (2, "summarize", ("c002", "c003")) in grid.asked


def test_the_key_is_kept_over_runs_and_not_the_number_of_the_supernode(tmp_path):
    first, second = nodes()
    run(GridDouble({1: first}, keys={1: SITE}), tmp_path, plan=Plan(timeout=60, rounds=1))
    grid = GridDouble({1: second, 2: first}, keys={1: OTHER, 2: SITE})
    _, report = run(grid, tmp_path)
    assert list(report.claimed) == ["c000"]
    assert report.answered == {"c002", "c003"}


def test_supernodes_without_keys_are_told_apart_by_nothing(tmp_path):
    first, second = nodes()
    _, report = run(GridDouble({1: first, 2: second}), tmp_path)
    assert (report.shared, report.claimed) == ({"c000"}, {})


def test_a_roster_says_who_may_answer_for_whom(tmp_path):
    first, second = nodes()
    roster = tmp_path / "roster.csv"
    roster.write_text(
        f"# client, key\nc000, {OTHER_PUB} someone@site\nc001, {fingerprint(SITE)}\n"
        f"c002, {fingerprint(OTHER)}\n"
    )
    grid = GridDouble({1: first, 2: second}, keys={1: SITE, 2: OTHER})
    _, report = run(grid, tmp_path / "run", plan=Plan(timeout=60, roster=str(roster)))
    assert report.answered == {"c000", "c001", "c002"}
    assert "belongs to the key SHA256:" in report.claimed["c000"]
    assert report.claimed["c003"].endswith("it is not in the roster")


def test_bytes_that_are_no_key_have_no_fingerprint():
    assert fingerprint(b"") == fingerprint(bytes(range(32))) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n", "line 1: expected `client id, key`"),
        ("a, nonsense\n", "line 1: expected the public key of 'a'"),
        ("a, SHA256:x\na, SHA256:y\n", "line 2: 'a' is there twice"),
    ],
)
def test_a_roster_that_is_none_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(SettingError, match=message):
        read_roster(tmp_path / "roster.csv")
