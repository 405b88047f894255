"""Whatever is found on a page gets from one process of a crawl to the other."""

import pytest

from crawlfleet.crawl.engine.work_queue_socket import Results, WorkRequest
from crawlfleet.crawl.extract.limited_reader import PageAnswer
from crawlfleet.crawl.process_messages import AS_JSON, decode, encode
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.reading import Reading
from crawlfleet.ports.sink import PageRecord


@pytest.mark.parametrize("number", [7, 2**64 - 1, 2**64, -(2**63) - 1, 10**23, -(10**300)])
def test_numbers_of_items_arrive_whatever_their_size(number: int) -> None:
    items = [Item(kind="structured", fields={"json_ld": [{"sku": number, "price": 1.5}]})]
    reading = Reading(base="https://shop.example/", items=items)
    assert decode(encode(PageAnswer(reading)), PageAnswer).reading == reading

    page = PageRecord(
        id=-5, url="https://shop.example/", at=1.5, headers=[], items=items, body=b"\0\xff"
    )
    asked = WorkRequest(id=3, what=Results(at=2.5, hosts=[], pages=[page]))
    found = decode(encode(asked), WorkRequest)
    assert isinstance(found.what, Results)
    assert (found.id, found.what.at, [*found.what.pages]) == (3, 2.5, [page])


def test_what_messagepack_has_room_for_is_sent_so() -> None:
    assert not encode(PageAnswer(None, "why")).startswith(AS_JSON)
    assert encode({"sku": 2**64}).startswith(AS_JSON)
