"""Masks: as many uniform integers modulo 2^64 as a vector has, from a seed of 32 bytes.

Every number has its own 64 bits of one ChaCha20 stream, so that no two numbers of a client share a
mask. A seed makes one stream in its life, since it is derived from keys of one round.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from fedcof.privacy.secure.ring import Vector

SEED_BYTES = 32

_NUMBERS = 16_384
"""A part of a mask has 128 KiB and stays in the cache until it is added."""

_ZEROS = bytes(8 * _NUMBERS)
_NO_NONCE = bytes(16)


def add_mask(vector: Vector, seed: bytes, *, negative: bool = False) -> None:
    """Add the mask of a seed to a vector in place, or take it off.

    Parameters
    ----------
    vector : ndarray of uint64, shape (size,)
    seed : bytes, shape (32,)
    negative : bool, default False
        Whether the mask is subtracted.
    """
    stream = Cipher(algorithms.ChaCha20(seed, _NO_NONCE), mode=None).encryptor()
    combine = np.subtract if negative else np.add
    memory = bytearray(8 * min(_NUMBERS, len(vector)))
    mask = np.frombuffer(memory, "<u8")
    zeros = memoryview(_ZEROS)
    for start in range(0, len(vector), _NUMBERS):
        part = vector[start : start + _NUMBERS]
        stream.update_into(zeros[: 8 * len(part)], memory)
        combine(part, mask[: len(part)], out=part)
