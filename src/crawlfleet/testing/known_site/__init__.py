"""A site whose every page, link and item is known beforehand, served on loopback.

`graph` says what there is, `server` serves it and remembers who asked for what and when. So a
crawl can be held to the truth: each page within the depth once, and every item.
"""

from crawlfleet.testing.known_site.graph import SiteProduct, SiteSpec
from crawlfleet.testing.known_site.process import Hit, ServedSite

__all__ = ["Hit", "ServedSite", "SiteProduct", "SiteSpec"]
