"""What becomes of items."""

from pathlib import Path

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class Priced:
    """Drops what has no price, and notes who was here in a file of the project."""

    def process_item(self, item, spider=None):
        adapter = ItemAdapter(item)
        if not adapter.get("price"):
            raise DropItem("it has no price")
        with Path("seen.txt").open("a") as seen:
            seen.write(f"{adapter['url']}\n")
        return item
