import pickle
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from secure_rounds import EXCHANGES, RUN, Federation

from fedcof.errors import SecureError, SummaryError
from fedcof.privacy.secure.keys import Ed25519Directory, Ed25519Identity
from fedcof.privacy.secure.messages import SERVER, Kind, Post, write_chosen
from fedcof.privacy.secure.terms import Terms, plan

KEYS, SHARES, MASKED, CONFIRMATION, OPENING = range(EXCHANGES)


@contextmanager
def refused(code, client_id=""):
    with pytest.raises(SecureError) as caught:
        yield
    assert (caught.value.code, caught.value.client_id) == (code, client_id)


def forged(answer, *, kind=None, run=RUN, round_number=1, sender="site-0", recipient=SERVER):
    """Return an answer with another envelope around its body."""
    body = answer[len(Post(run, 1).write(Kind.KEYS, "site-0", SERVER, b"")) :]
    return Post(run, round_number).write(kind or Kind(answer[5]), sender, recipient, body)


# The sum


@given(st.integers(3, 12), st.integers(0, 2**32), st.integers(0, 40), st.data())
@settings(deadline=None, max_examples=25)
def test_the_sum_is_exact_whoever_drops_out_and_whenever(clients, seed, size, data):
    federation = Federation(clients, size=size, terms=Terms(0.1, 0.0), seed=seed)
    spare = clients - plan(clients, federation.terms).threshold
    leavers = data.draw(st.lists(st.sampled_from(federation.ids), unique=True, max_size=spare))
    left = {name: data.draw(st.integers(SHARES, OPENING)) for name in leavers}
    gone_in = {number: [n for n, at in left.items() if at == number] for number in range(5)}
    total = federation.run(gone_in)
    survivors = [name for name in federation.ids if left.get(name, OPENING) > MASKED]
    assert sorted(federation.server.survivors) == sorted(survivors)
    assert total.tolist() == federation.sum_of(survivors).tolist()


@pytest.mark.slow
def test_the_sum_is_exact_on_a_circle_of_neighbours():
    federation = Federation(140, terms=Terms(0.05, 0.05))
    assert plan(140, federation.terms).neighbours < 139
    total = federation.run({SHARES: ["site-3"], MASKED: ["site-7", "site-8"], OPENING: ["site-9"]})
    survivors = set(federation.ids) - {"site-3", "site-7", "site-8"}
    assert total.tolist() == federation.sum_of(survivors).tolist()


@pytest.mark.parametrize("exchange", range(EXCHANGES))
def test_drop_outs_up_to_the_threshold_and_one_past_it(exchange):
    clients = 7
    threshold = plan(clients, Terms()).threshold
    # A round whose keys come from fewer has a threshold of its own.
    spare = clients - (3 if exchange == KEYS else threshold)
    gone = [f"site-{number}" for number in range(spare)]
    federation = Federation(clients)
    total = federation.run({exchange: gone})
    survivors = set(federation.ids) - (set(gone) if exchange <= MASKED else set())
    assert total.tolist() == federation.sum_of(survivors).tolist()

    federation = Federation(clients)
    with refused("too-few"):
        federation.run({exchange: [*gone, "site-6"]})
    with refused("turn"):
        federation.server.result()
    assert federation.server.survivors == []
    assert federation.server.advance() == {}


def test_a_sum_over_fewer_than_agreed_is_never_opened():
    federation = Federation(7, terms=Terms(0.1, 0.05, least=6))
    federation.run({MASKED: ["site-0"]})
    federation = Federation(7, terms=Terms(0.1, 0.05, least=6))
    with refused("too-few"):
        federation.run({MASKED: ["site-0", "site-1"]})


# What the server sees


def test_what_the_server_sees_of_equal_numbers_is_uniform():
    rounds, size = 60, 20
    width = Federation(3, bound=2**50).layout.fields["x"].number.width
    seen = []

    def keep(_, answer):
        seen.append(answer[-width * size :])
        return answer

    for seed in range(rounds):
        federation = Federation(3, size=size, seed=seed, bound=2**50)
        federation.numbers = dict.fromkeys(federation.ids, np.full(size, 7))
        federation.clients = {name: federation.client(name) for name in federation.ids}
        federation.run(
            changes={MASKED: lambda _, answer: seen.append(answer[-width * size :]) or answer}
        )
    data = np.frombuffer(b"".join(seen), np.uint8).reshape(-1, size, width)
    assert len(data) == 3 * rounds
    every_byte = stats.chisquare(np.bincount(data.ravel(), minlength=256))
    assert every_byte.pvalue > 1e-6
    bits = np.unpackbits(data, axis=2).reshape(len(data), -1).sum(axis=0)
    deviations = (bits - len(data) / 2) / np.sqrt(len(data) / 4)
    assert stats.chi2.sf(np.sum(deviations**2), len(bits)) > 1e-6
    # Numbers that are equal do not look so: no two places of a client share a mask.
    differences = (data[:, 1:, 0] - data[:, :-1, 0]).ravel()
    assert stats.chisquare(np.bincount(differences, minlength=256)).pvalue > 1e-6


def test_two_rounds_of_the_same_clients_share_no_mask():
    """Even where they draw the same secrets again, which only a test can make them do."""
    masked = []

    def keep(_, answer):
        masked.append(answer[-200:])
        return answer

    for round_number in (1, 2):
        Federation(3, size=100, seed=5, round_number=round_number).run(changes={MASKED: keep})
    assert len(set(masked)) == 6
    one, other = (np.frombuffer(data, np.uint8) for data in (masked[0], masked[3]))
    assert np.mean(one == other) < 0.1


def test_one_wrong_bit_of_a_mask_breaks_the_sum():
    def flip(name, answer):
        if name != "site-1":
            return answer
        return answer[:-width] + bytes([answer[-width] ^ 1]) + answer[len(answer) - width + 1 :]

    federation = Federation(4, bound=10_000)
    width = federation.layout.fields["x"].number.width
    total = federation.run(changes={MASKED: flip})
    wrong = total - federation.sum_of(federation.ids)
    assert wrong.tolist()[:2] == [0, 0]
    assert wrong[2] != 0


def test_one_wrong_bit_of_a_seed_breaks_every_number(monkeypatch):
    from fedcof.privacy.secure import client

    right = client.own_seed

    def wrong(secret, roster, number):
        seed = right(secret, roster, number)
        return bytes([seed[0] ^ (number == 0)]) + seed[1:]

    monkeypatch.setattr(client, "own_seed", wrong)
    federation = Federation(3, size=50, bound=2**40)
    with pytest.raises(SummaryError, match="masks do not cancel"):
        federation.run()


# What comes from clients


@pytest.mark.parametrize("exchange", range(EXCHANGES))
def test_an_answer_that_is_not_the_awaited_one_is_refused_and_changes_nothing(exchange):
    federation = Federation(4)
    earlier = {}

    def keep(name, answer):
        earlier[name] = answer
        return answer

    for _ in range(exchange):
        federation.exchange(change=keep)
    messages = federation.server.advance()
    answers = {name: federation.clients[name].answer(message) for name, message in messages.items()}
    answer, receive = answers["site-0"], federation.server.receive

    for cut in (0, 10, len(answer) - 1):
        with refused("bytes", "site-0"):
            receive("site-0", answer[:cut])
    with refused("bytes", "site-0"):
        receive("site-0", answer + b"\0")
    with refused("bytes", "site-0"):
        receive("site-0", forged(answer[:-1]))
    with refused("bytes", "site-0"):
        receive("site-0", forged(answer + b"\0"))
    with refused("bytes", "site-0"):
        receive("site-0", b"GET " + answer[4:])
    with refused("version", "site-0"):
        receive("site-0", answer[:4] + b"\x02" + answer[5:])
    with refused("run", "site-0"):
        receive("site-0", forged(answer, run=bytes(16)))
    with refused("run", "site-0"):
        receive("site-0", forged(answer, round_number=2))
    with refused("address", "site-0"):
        receive("site-0", answers["site-1"])
    with refused("address", "site-0"):
        receive("site-0", forged(answer, recipient="site-1"))
    with refused("turn", "site-0"):
        receive("site-0", forged(answer, kind=Kind.CALL))
    if earlier:
        with refused("turn", "site-0"):
            receive("site-0", earlier["site-0"])
    with refused("turn", "mallory"):
        receive("mallory", answer)
    receive("site-0", answer)
    with refused("turn", "site-0"):  # replayed
        receive("site-0", answer)

    assert federation.server.waiting() == ["site-1", "site-2", "site-3"]
    for name in federation.server.waiting():
        receive(name, answers[name])
    while federation.exchange():
        pass
    assert federation.server.result()["x"].tolist() == federation.sum_of(federation.ids).tolist()


def test_a_client_that_has_dropped_out_is_not_heard_again():
    federation = Federation(7)
    federation.exchange()
    messages = federation.server.advance()
    late = federation.clients["site-0"].answer(messages["site-0"])
    for name in federation.ids[1:]:
        federation.server.receive(name, federation.clients[name].answer(messages[name]))
    assert "site-0" not in federation.server.advance()
    with refused("turn", "site-0"):
        federation.server.receive("site-0", late)


def test_keys_that_are_not_signed_by_the_client_are_refused():
    federation = Federation(4)
    federation.clients["site-0"] = federation.client("site-0", identity=Ed25519Identity())
    with refused("signature", "site-0"):
        federation.exchange()


def test_a_vector_of_another_length_is_refused():
    federation = Federation(4)
    with refused("length"):
        federation.client("site-0", vector=np.zeros(4, np.uint64))


def test_a_client_of_another_layout_refuses_the_call():
    federation, other = Federation(4), Federation(4, size=4)
    federation.clients["site-0"] = other.clients["site-0"]
    with refused("layout"):
        federation.exchange()


def test_a_client_that_lies_about_its_range_is_found_out_where_the_sum_is_out_of_range():
    federation = Federation(4)
    beyond = np.full(3, 401, np.uint64)  # four clients of 100 make 400 at most
    federation.clients["site-0"] = federation.client("site-0", vector=beyond)
    federation.numbers["site-0"] = beyond
    for name in federation.ids[1:]:
        federation.clients[name] = federation.client(name, vector=np.zeros(3, np.uint64))
    with pytest.raises(SummaryError, match="above the bound"):
        federation.run()


def test_a_false_share_is_found_out_and_the_liar_named():
    def lie(name, answer):
        return answer[:-1] + bytes([answer[-1] ^ 1]) if name == "site-2" else answer

    federation = Federation(7)
    total = federation.run(changes={OPENING: lie})
    assert total.tolist() == federation.sum_of(federation.ids).tolist()
    assert federation.server.liars == {"site-2"}


def test_shares_that_do_not_open_a_secret_fail_closed():
    def lie(name, answer):
        return answer[:-1] + bytes([answer[-1] ^ 1]) if name == "site-2" else answer

    federation = Federation(3)  # all three are needed
    with pytest.raises(SecureError) as caught:
        federation.run(changes={OPENING: lie})
    assert caught.value.code == "shares"
    with refused("turn"):
        federation.server.result()


def test_sealed_shares_that_were_altered_are_refused_by_their_recipient():
    federation = Federation(4)
    federation.exchange()
    federation.exchange()
    inbox = bytearray(federation.server.advance()["site-0"])
    inbox[-1] ^= 1
    with pytest.raises(SecureError) as caught:
        federation.clients["site-0"].answer(bytes(inbox))
    assert caught.value.code == "shares"
    assert caught.value.client_id in federation.ids[1:]


# What comes from the server


def started(clients=7, exchanges=0, **settings):
    federation = Federation(clients, **settings)
    for _ in range(exchanges):
        federation.exchange()
    return federation


@pytest.mark.parametrize("exchange", range(EXCHANGES))
def test_a_message_that_is_not_the_awaited_one_is_refused_and_changes_nothing(exchange):
    federation = Federation(4)
    before = None
    for _ in range(exchange):
        before = federation.exchange()["site-0"]
    messages = federation.server.advance()
    message, client = messages["site-0"], federation.clients["site-0"]
    for wrong in (message[:-1], message + b"\0", message[:20], b"", messages["site-1"], before):
        if wrong is not None:
            with pytest.raises(SecureError):
                client.answer(wrong)
    client.answer(message)
    with refused("turn"):
        client.answer(message)


def test_terms_that_protect_less_are_refused():
    for weaker in (Terms(0.0, 0.05), Terms(0.1, 0.05, least=2)):
        federation = Federation(4, terms=weaker)
        federation.clients["site-0"] = federation.client("site-0", terms=Terms())
        with refused("terms"):
            federation.exchange()


def test_keys_that_differ_from_client_to_client_are_refused():
    """The server puts itself between two clients with a key of its own."""
    federation = started(4, exchanges=1)
    roster = bytearray(federation.server.advance()["site-0"])
    place = roster.rindex(b"site-2") + len(b"site-2")
    roster[place] ^= 1
    with refused("roster", "site-2"):
        federation.clients["site-0"].answer(bytes(roster))


def test_a_server_that_signs_for_a_client_itself_is_refused():
    """It makes up a whole client, which the others' directory does not know by that key."""
    federation = Federation(4)
    forger = Ed25519Identity()
    keys = {name: identity.public_key for name, identity in federation.identities.items()}
    federation.server._directory = Ed25519Directory({**keys, "site-2": forger.public_key})
    federation.clients["site-2"] = federation.client("site-2", identity=forger)
    federation.exchange()
    with refused("signature", "site-2"):
        federation.exchange()


def test_a_client_that_stands_twice_in_the_roster_is_refused():
    federation = started(4, exchanges=1)
    message = bytearray(federation.server.advance()["site-0"])
    start = len(Post(RUN, 1).write(Kind.ROSTER, SERVER, "site-0", b"")) + 16
    own = federation.server._numbers["site-0"]
    one, other = [number for number in range(4) if number != own][:2]
    name = message[start + 32 * one : start + 32 * one + 8]
    message[start + 32 * other : start + 32 * other + 8] = name
    with refused("roster"):
        federation.clients["site-0"].answer(bytes(message))


def test_a_threshold_below_what_the_terms_need_is_refused():
    federation = started(7, exchanges=1)
    body = bytearray(federation.server.advance()["site-0"])
    start = len(Post(RUN, 1).write(Kind.ROSTER, SERVER, "site-0", b""))
    body[start + 12 : start + 16] = (2).to_bytes(4)
    with refused("terms"):
        federation.clients["site-0"].answer(bytes(body))


def lied_to(federation, name, gone):
    """Return a client's answer to a server that says that all survive but those who are gone."""
    server = federation.server
    surviving = [number for number in range(7) if number not in map(server._numbers.get, gone)]
    own, proofs = server._numbers[name], server._peers[server._numbers[name]].tags
    tags = (proofs[other] for other in surviving if other != own)
    body = b"".join((write_chosen(range(7), surviving), *tags))
    message = server._post.write(Kind.SURVIVORS, SERVER, name, body)
    return federation.clients[name].answer(message), [n for n in surviving if n != own]


@pytest.mark.parametrize("passes_on", ["all", "those that agree"])
def test_a_server_that_tells_two_halves_of_two_sets_opens_nothing(passes_on):
    """It says to one half that site-6 is gone, for its key, and to the other that it is not."""
    federation = started(7, exchanges=3)
    server = federation.server
    server.advance()
    halves = {name: name in federation.ids[:3] for name in federation.ids}
    confirmations, told = {}, {}
    for name, is_first in halves.items():
        answer, told[name] = lied_to(federation, name, {"site-6"} if is_first else set())
        tags = answer[len(answer) - 16 * len(told[name]) :]
        for place, other in enumerate(told[name]):
            confirmations[server._numbers[name], other] = tags[16 * place : 16 * place + 16]
    names = {number: name for name, number in server._numbers.items()}
    for name, is_first in halves.items():
        own = server._numbers[name]
        seen = [
            other
            for other in told[name]
            if (other, own) in confirmations
            and (passes_on == "all" or halves[names[other]] == is_first)
        ]
        tags = (confirmations[other, own] for other in seen)
        body = b"".join((write_chosen(told[name], seen), *tags))
        with pytest.raises(SecureError) as caught:
            federation.clients[name].answer(
                server._post.write(Kind.CONFIRMATIONS, SERVER, name, body)
            )
        assert caught.value.code in (
            {"survivors", "too-few"} if passes_on == "all" else {"too-few"}
        )
        assert not federation.clients[name].opened


def test_a_client_that_is_said_to_be_gone_opens_nothing():
    federation = started(7, exchanges=3)
    message = bytearray(federation.server.advance()["site-0"])
    start = len(Post(RUN, 1).write(Kind.SURVIVORS, SERVER, "site-0", b""))
    message[start] ^= 0x80 >> federation.server._numbers["site-0"]
    with refused("survivors"):
        federation.clients["site-0"].answer(bytes(message))


def test_a_neighbour_that_survives_without_having_masked_with_the_client_is_refused():
    federation = started(7, exchanges=3)
    message = bytearray(federation.server.advance()["site-0"])
    message[-1] ^= 1  # the last neighbour's proof
    with pytest.raises(SecureError) as caught:
        federation.clients["site-0"].answer(bytes(message))
    assert (caught.value.code, caught.value.client_id != "") == ("survivors", True)


def test_nothing_is_answered_after_the_round_and_the_secrets_are_dropped():
    federation = Federation(3)
    federation.run()
    client = federation.clients["site-0"]
    assert client.opened
    assert not {"_secret", "_mask_key", "_vector", "_held"} & set(vars(client))


def test_an_error_survives_pickling():
    error = pickle.loads(pickle.dumps(SecureError("run", "of another run", client_id="a")))
    assert (error.code, error.client_id, str(error)) == ("run", "a", "client 'a': of another run")


def test_too_few_clients_for_the_terms_are_refused():
    federation = Federation(3)
    with refused("too-few"):
        federation.run({KEYS: ["site-0"]})
