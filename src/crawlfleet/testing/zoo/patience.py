"""Animals that only a limit of time gets rid of."""

from typing import Final

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import PAGE, Animal, ZooVisitor, reply, says_forever

DRIP_S: Final = 0.05


async def say_nothing(visitor: ZooVisitor) -> None:
    await visitor.wait()


async def drip_headers(visitor: ZooVisitor) -> None:
    await visitor.drip(reply(PAGE, *(f"X-{n}: {n}" for n in range(500))), pause_s=DRIP_S)


async def drip_body(visitor: ZooVisitor) -> None:
    await visitor.send(reply(length=1_000_000))
    await visitor.drip(b"x" * 1_000_000, pause_s=DRIP_S)


async def stop_in_the_headers(visitor: ZooVisitor) -> None:
    await visitor.send(reply(PAGE)[:30])
    await visitor.wait()


async def stop_in_the_body(visitor: ZooVisitor) -> None:
    await visitor.send(reply(PAGE, length=5000))
    await visitor.wait()


async def stop_before_the_last_chunk(visitor: ZooVisitor) -> None:
    await visitor.send(reply(b"5\r\nhello\r\n", "Transfer-Encoding: chunked", length=None))
    await visitor.wait()


PATIENCE: Final = tuple(
    Animal(name, Outcome.TIMEOUT, behave, slow=True)
    for name, behave in (
        ("silent", say_nothing),
        ("headers-slow", drip_headers),
        ("headers-stop", stop_in_the_headers),
        ("body-slow", drip_body),
        ("body-stops", stop_in_the_body),
        ("chunks-stop", stop_before_the_last_chunk),
        ("hints-slow", says_forever(b"", b"HTTP/1.1 102 Wait\r\n\r\n", pause_s=0.95)),
    )
)
