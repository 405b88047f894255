"""A zoo of bad sites on the loopback: every way in which a site can misbehave, and what should
come of it.

    with open_zoo() as zoo:
        for animal in ANIMALS:
            page = await fetcher.fetch(FetchRequest(url=zoo.url(animal)))
            assert page.outcome == animal.outcome
"""

from crawlfleet.testing.zoo.animal import Animal
from crawlfleet.testing.zoo.enclosure import ANIMALS, Zoo, open_zoo

__all__ = ["ANIMALS", "Animal", "Zoo", "open_zoo"]
