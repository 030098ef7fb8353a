import os
import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import SecureError
from fedcof.privacy.secure.keys import (
    Channel,
    Ed25519Directory,
    Ed25519Identity,
    agree,
    derive,
    own_seed,
    pair_seed,
)
from fedcof.privacy.secure.masks import add_mask
from fedcof.privacy.secure.messages import Reader, write_chosen
from fedcof.privacy.secure.shares import PRIME, join, recover, split

SECRETS = st.binary(min_size=32, max_size=32)


@given(SECRETS, st.integers(2, 9), st.data())
def test_any_threshold_of_shares_gives_the_secret_and_one_fewer_does_not(secret, holders, data):
    threshold = data.draw(st.integers(2, holders))
    numbers = data.draw(
        st.lists(st.integers(1, 2000), min_size=holders, max_size=holders, unique=True)
    )
    shares = dict(zip(numbers, split(secret, numbers, threshold, os.urandom), strict=True))
    chosen = data.draw(st.permutations(numbers))[:threshold]
    assert join({number: shares[number] for number in chosen}) == secret
    assert join({number: shares[number] for number in chosen[1:]}) != secret


def test_fewer_shares_than_the_threshold_fit_every_secret():
    """With one share fewer, each secret has exactly one polynomial: the shares tell nothing."""
    share = int.from_bytes(split(bytes(32), [5], 2, os.urandom)[0])
    for secret in (0, 1, 2**256 - 1):
        slope = (share - secret) * pow(5, -1, PRIME) % PRIME
        assert (secret + 5 * slope) % PRIME == share


def test_shares_of_the_same_secret_differ_and_are_uniform():
    first = [split(bytes(32), [1], 3, os.urandom)[0] for _ in range(2000)]
    assert len(set(first)) == 2000
    high = sum(int.from_bytes(share) > PRIME // 2 for share in first)
    assert abs(high - 1000) < 5 * np.sqrt(500)


def test_the_liars_among_many_shares_are_found():
    secret, numbers = os.urandom(32), range(1, 11)
    shares = dict(zip(numbers, split(secret, numbers, 6, os.urandom), strict=True))
    for liar in (2, 9):
        shares[liar] = bytes(33)
    assert recover(shares, 6, secret.__eq__) == (secret, [2, 9])
    shares |= dict.fromkeys((1, 3, 4), bytes(33))
    assert recover(shares, 6, secret.__eq__) == (None, [])


@given(st.integers(0, 40_000), SECRETS)
def test_a_mask_comes_off_as_it_went_on(size, seed):
    vector = np.arange(size, dtype=np.uint64)
    add_mask(vector, seed)
    add_mask(vector, seed, negative=True)
    assert (vector == np.arange(size, dtype=np.uint64)).all()


def test_a_mask_is_the_stream_of_chacha20():
    """The first block of RFC 8439, section 2.3.2's cipher, with key and nonce zero."""
    vector = np.zeros(4, np.uint64)
    add_mask(vector, bytes(32))
    known = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert vector.astype("<u8").tobytes().hex() == known


def test_a_mask_does_not_repeat_from_one_part_to_the_next():
    vector = np.zeros(50_000, np.uint64)
    add_mask(vector, bytes(32))
    assert len(np.unique(vector)) == 50_000


def test_what_is_derived_depends_on_the_round_the_purpose_and_the_clients():
    secret, one, other = bytes(32), bytes(32), bytes([1] * 32)
    keys = {
        derive(secret, one, b"a"),
        derive(secret, other, b"a"),
        derive(secret, one, b"b"),
        derive(secret, one, b"a", 1),
        derive(secret, one, b"a", 1, 2),
        own_seed(secret, one, 1),
        own_seed(secret, one, 2),
        pair_seed(secret, one, 1, 2),
        pair_seed(secret, one, 1, 3),
    }
    assert len(keys) == 9
    assert pair_seed(secret, one, 2, 1) == pair_seed(secret, one, 1, 2)


def test_two_clients_agree_and_low_order_keys_are_refused():
    one, other = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    keys = [key.public_key().public_bytes_raw() for key in (one, other)]
    assert agree(one, keys[1], "other") == agree(other, keys[0], "one")
    with pytest.raises(SecureError, match="client 'other'"):
        agree(one, bytes(32), "other")


def test_a_channel_goes_one_way_and_shows_what_was_altered():
    secret, roster = os.urandom(32), os.urandom(32)
    there, back = Channel(secret, roster, 1, 2), Channel(secret, roster, 2, 1)
    sealed, tag = there.seal(b"shares"), there.tag(b"said")
    assert Channel(secret, roster, 1, 2).unseal(sealed) == b"shares"
    assert there.proves(b"said", tag)
    assert back.unseal(sealed) is None
    assert not back.proves(b"said", tag)
    assert not there.proves(b"unsaid", tag)
    assert there.unseal(sealed[:-1]) is None
    assert there.unseal(bytes([sealed[0] ^ 1]) + sealed[1:]) is None


def test_a_directory_knows_its_clients_signatures_only():
    identity = Ed25519Identity(random=random.Random(0).randbytes)
    directory = Ed25519Directory({"a": identity.public_key, "broken": b"short"})
    signature = identity.sign(b"text")
    assert directory.verify("a", b"text", signature)
    assert not directory.verify("a", b"other", signature)
    assert not directory.verify("b", b"text", signature)
    assert not directory.verify("broken", b"text", signature)
    assert not directory.verify("a", b"text", b"short")


@given(st.sets(st.integers(0, 30)), st.integers(0, 31))
def test_chosen_clients_are_read_as_they_were_written(chosen, size):
    among = range(size)
    reader = Reader(write_chosen(among, chosen), "")
    assert reader.chosen(among) == sorted(chosen & set(among))
    reader.end()


def test_chosen_clients_beyond_the_last_are_refused():
    with pytest.raises(SecureError, match="more than 3"):
        Reader(b"\xff", "a").chosen(range(3))
