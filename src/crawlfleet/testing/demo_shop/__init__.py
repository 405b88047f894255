"""A small shop on the loopback to try crawls on: pleasant to look at, and with the snares of real
ones. The same each time.

    python -m crawlfleet.testing.demo_shop --port 8080
"""

from crawlfleet.testing.demo_shop.catalogue import CATEGORIES, PRODUCTS, Product
from crawlfleet.testing.demo_shop.process import ServedShop

__all__ = ["CATEGORIES", "PRODUCTS", "Product", "ServedShop"]
