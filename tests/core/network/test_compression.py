"""Packed bodies: what goes in comes out, and never more than is allowed."""

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.network.compression import (
    ENCODINGS,
    BadCompression,
    TooLarge,
    chosen,
    pack,
    unpack,
)

BOMB = bytes(200_000_000)


@given(st.binary(max_size=2_000), st.sampled_from(ENCODINGS))
@settings(deadline=None)
def test_what_was_packed_comes_out(body: bytes, encoding: str) -> None:
    assert unpack(pack(body, encoding), encoding, most_bytes=len(body)) == body


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_is_refused_before_it_goes_off(encoding: str) -> None:
    bomb = pack(BOMB, encoding)
    assert len(bomb) < 1_000_000
    begun = time.process_time()
    with pytest.raises(TooLarge):
        unpack(bomb, encoding, most_bytes=1_000_000)
    assert time.process_time() - begun < 1.0


@given(st.binary(max_size=500), st.sampled_from(ENCODINGS))
@settings(deadline=None)
def test_what_is_not_packed_is_refused_or_harmless(body: bytes, encoding: str) -> None:
    with contextlib.suppress(BadCompression, TooLarge):
        assert len(unpack(body, encoding, most_bytes=10_000)) <= 10_000


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_cut_body_is_not_taken_for_a_whole_one(encoding: str) -> None:
    packed = pack(b"0123456789" * 500, encoding)
    with contextlib.suppress(BadCompression):
        assert len(unpack(packed[:-9], encoding, most_bytes=10_000)) < 5_000


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", ""),
        ("identity", ""),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP;q=0.5", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd ; q=0", ""),
    ],
)
def test_the_best_of_what_is_accepted_is_chosen(accepted: str, encoding: str) -> None:
    assert chosen(accepted) == encoding
