"""The products and articles of the demo shop."""

import random
from typing import Final, NamedTuple

PER_CATEGORY: Final = 20
PER_PAGE: Final = 8

_KINDS: Final = {
    "lamps": ("Lamp", "Lantern", "Spotlight", "Desk light"),
    "chairs": ("Chair", "Armchair", "Stool", "Rocking chair"),
    "tables": ("Table", "Side table", "Desk", "Workbench"),
    "clocks": ("Clock", "Alarm clock", "Wall clock", "Hourglass"),
    "teapots": ("Teapot", "Kettle", "Samovar", "Tea set"),
    "kites": ("Kite", "Box kite", "Windsock", "Pinwheel"),
    "bicycles": ("Bicycle", "Tandem", "Unicycle", "Cargo bike"),
    "notebooks": ("Notebook", "Sketchbook", "Diary", "Ledger"),
    "telescopes": ("Telescope", "Spyglass", "Binoculars", "Sextant"),
    "umbrellas": ("Umbrella", "Parasol", "Raincoat", "Rain hat"),
}
_LOOKS: Final = (
    "Amber",
    "Birch",
    "Cobalt",
    "Coral",
    "Dusky",
    "Fern",
    "Golden",
    "Harbour",
    "Indigo",
    "Ivory",
    "Juniper",
    "Linen",
    "Maple",
    "Midnight",
    "Moss",
    "Northern",
    "Ochre",
    "Pearl",
    "Quartz",
    "Rustic",
    "Saffron",
    "Silver",
    "Slate",
    "Sunny",
    "Teal",
    "Velvet",
    "Walnut",
    "Willow",
)
_PRAISE: Final = (
    "made by hand in a small workshop",
    "light enough to carry up a mountain",
    "a quiet companion for long evenings",
    "sturdy, simple, and easy to mend",
    "drawn by somebody who uses one every day",
    "packed in paper, never in plastic",
)
_SUBJECTS: Final = (
    "How we choose our wood",
    "A day in the workshop",
    "Ten years of mending things",
    "Why our prices end in odd numbers",
    "The long way of a teapot",
    "Letters from our customers",
    "Colours of the autumn",
    "What rain teaches about umbrellas",
    "A kite over the harbour",
    "Looking at the moon with a spyglass",
    "Small tables for small rooms",
    "The clock that would not stop",
)


class Product(NamedTuple):
    number: int
    category: str
    title: str
    price: str
    text: str
    hue: int

    @property
    def path(self) -> str:
        return f"/product/{self.number}-{self.title.lower().replace(' ', '-')}"


class Post(NamedTuple):
    number: int
    title: str
    text: str

    @property
    def path(self) -> str:
        return f"/blog/{self.number}"


CATEGORIES: Final = tuple(_KINDS)


def _products() -> list[Product]:
    chance = random.Random(1729)
    made: list[Product] = []
    for category, kinds in _KINDS.items():
        looks = chance.sample(_LOOKS, PER_CATEGORY)
        for number, look in enumerate(looks):
            made.append(
                Product(
                    number=1000 + len(made),
                    category=category,
                    title=f"{look} {kinds[number % len(kinds)]}",
                    price=f"€{chance.randrange(500, 40_000) / 100:.2f}",
                    text=", ".join(chance.sample(_PRAISE, 2)).capitalize() + ".",
                    hue=chance.randrange(360),
                )
            )
    return made


def _posts() -> list[Post]:
    chance = random.Random(6174)
    return [
        Post(
            number,
            title,
            " ".join(f"{line.capitalize()}." for line in chance.choices(_PRAISE, k=9)),
        )
        for number, title in enumerate(_SUBJECTS, start=1)
    ]


PRODUCTS: Final = tuple(_products())
POSTS: Final = tuple(_posts())
BY_PATH: Final = {product.path: product for product in PRODUCTS}
