"""What a writer notes as told to other partitions: what it has told itself, and nothing else."""

import msgspec

from crawlfleet.adapters.frontier.redis.handover import SentLinks, pack_links
from crawlfleet.adapters.frontier.redis.records import SEED, id_bytes, id_word, link_words
from crawlfleet.model.crawl.frontier import Link

MINE, OTHER = -7, 1 << 62
"""Pages."""
LINK = Link(-(1 << 63), "https://b.example/" + "x" * 300, "https://b.example#12", -128)


def message(page: int, *, kind: str = "L", depth: int = 3, source: int = 200) -> bytes:
    """As the scripts write it."""
    id, url, host, rank, to = link_words(LINK, 1)
    if kind == "D":
        return msgspec.msgpack.encode([to, kind, id, depth, 1.5])
    return msgspec.msgpack.encode(
        [to, kind, depth, id, url, host, rank, 255, source, id_word(page), 1.5]
    )


def test_links_of_own_pages_are_noted_with_their_depth() -> None:
    for depth, source in ((0, 0), (3, 200), (127, SEED), (300, 1)):
        told = SentLinks()
        told.note(message(MINE, depth=depth, source=source), {id_bytes(MINE)})
        assert told.depth_of(LINK.id) == depth


def test_what_others_have_told_is_not() -> None:
    told = SentLinks()
    told.note(message(OTHER), {id_bytes(MINE)})
    told.note(message(MINE, kind="D"), {id_bytes(MINE)})
    told.note(b"\xc1" + pack_links([link_words(LINK, 1)]), {id_bytes(MINE)})
    assert told.depth_of(LINK.id) is None
