"""`python -m crawlfleet.testing.demo_shop`."""

from crawlfleet.testing.demo_shop.server import main

main()
