import contextlib
import gzip
import random
import time
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet import zstd
from crawlfleet.crawl.fetch.decoding import (
    MAX_ZSTD_FRAMES,
    DecodingLayer,
    Inflate,
    Overflowing,
    Undecodable,
    Zstandard,
    decoder,
)
from crawlfleet.crawl.fetch.response import is_wanted, judge, media_type
from crawlfleet.model.crawl.parameters import Outcome


def test_every_status_has_an_outcome() -> None:
    for status in range(1000):
        outcome, reason = judge(status, location=False, conditional=False)
        assert reason or outcome is Outcome.OK


def test_whoever_wants_to_be_paid_says_so_in_an_outcome_of_its_own() -> None:
    outcome, reason = judge(402, location=False, conditional=False)

    assert outcome is Outcome.PAYMENT_REQUIRED
    assert "402" in reason


@pytest.mark.parametrize(
    ("content_type", "wanted"),
    [
        ("text/html", True),
        ("Text/HTML; charset=utf-8", True),
        ("text/html,text/plain", True),
        ("image/png", True),
        ("", True),
        ("text/plain", False),
        ("application/pdf", False),
    ],
)
def test_content_types_are_wanted_or_not(content_type: str, wanted: bool) -> None:
    assert is_wanted(media_type(content_type), ("text/html", "image/*")) is wanted


def pack(data: bytes, encoding: str) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(data)
        case "deflate":
            return zlib.compress(data)
        case "br":
            return brotli.compress(data, quality=4)
        case _:
            return zstd.compress(data)


ENCODINGS = ["gzip", "deflate", "br", "zstd"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
@pytest.mark.parametrize("step", [1, 700, 1_000_000])
def test_what_was_packed_is_unpacked_in_any_pieces(encoding: str, size: int, step: int) -> None:
    data = random.Random(1).choices(b"abcdefgh", k=size)
    packed = pack(bytes(data), encoding)
    if step == 1:
        packed, data = pack(bytes(data[:500]), encoding), data[:500]
    found = decoder(encoding, size)
    assert found is not None

    for start in range(0, len(packed), step):
        found.feed(packed[start : start + step])

    assert found.finish() == bytes(data)


@pytest.mark.parametrize("encoding", [*ENCODINGS, "gzip, br"])
def test_bombs_are_stopped_at_the_limit(encoding: str) -> None:
    packed = bytes(50_000_000)
    for each in encoding.split(", "):
        packed = pack(packed, each)
    found = decoder(encoding, 100_000)
    assert found is not None

    with pytest.raises(Overflowing):
        found.feed(packed)
    assert len(found.taken()) <= 100_000


@pytest.mark.parametrize(
    ("layer", "encoding"),
    [(Inflate(gzip=True), "gzip"), (Inflate(gzip=False), "deflate"), (Zstandard(), "zstd")],
)
def test_no_more_comes_out_than_one_byte_above_the_limit(
    layer: DecodingLayer, encoding: str
) -> None:
    assert len(layer.feed(pack(bytes(50_000_000), encoding), 1_000_000)) == 1_000_001


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_parts_of_a_body_are_read_as_one(encoding: str) -> None:
    found = decoder(encoding, 1_000_000)
    assert found is not None
    found.feed(b"".join(pack(b"%d," % n, encoding) for n in range(5_000)))
    assert found.finish() == b"".join(b"%d," % n for n in range(5_000))


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_empty_parts_takes_little_time(encoding: str) -> None:
    packed = gzip.compress(pack(b"", encoding) * 400_000)
    found = decoder(f"{encoding}, gzip", 10_000_000)
    assert found is not None
    begun = time.process_time()
    with contextlib.suppress(Undecodable):
        found.feed(packed)
    assert time.process_time() - begun < 3.0


def test_a_body_has_a_limited_number_of_zstd_frames() -> None:
    found = decoder("zstd", 1_000)
    assert found is not None
    found.feed(zstd.compress(b"") * MAX_ZSTD_FRAMES)
    with pytest.raises(Undecodable, match="frames"):
        found.feed(zstd.compress(b""))


def test_a_zstd_frame_that_asks_for_much_memory_is_refused() -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 24})
    packed = packer.compress(bytes(20_000_000)) + packer.flush()
    found = decoder("zstd", 100_000_000)
    assert found is not None
    with pytest.raises(Undecodable, match="memory"):
        found.feed(packed)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(junk=st.binary(min_size=1, max_size=200))
def test_junk_is_undecodable_or_small(encoding: str, junk: bytes) -> None:
    found = decoder(encoding, 10_000)
    assert found is not None
    try:
        found.feed(junk)
        found.finish()
    except (Undecodable, Overflowing):
        pass


def test_an_empty_body_needs_no_end() -> None:
    for encoding in ENCODINGS:
        found = decoder(encoding, 10)
        assert found is not None
        assert found.finish() == b""


def test_names_of_no_encoding_are_passed_over() -> None:
    for name in ("", "identity", "utf-8", "none", "sdch"):
        assert decoder(name, 10) is None
