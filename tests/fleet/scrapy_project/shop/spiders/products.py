import json
from pathlib import Path

import scrapy

from shop.items import Product


class ProductsSpider(scrapy.Spider):
    """The products of one category, or of all."""

    name = "products"

    def __init__(self, url="", category="", *args, **kwargs):
        super().__init__(*args, **kwargs)
        names = json.loads(Path("categories.json").read_text())
        wanted = [category] if category else names
        self.start_urls = [f"{url}category/{name}/" for name in wanted]
        self.category = category

    def parse(self, response):
        self.logger.info("looking at %s", response.url)
        for link in response.css(".card a::attr(href)").getall():
            yield response.follow(link, self.parse_product)
        for link in response.css(".pages a::attr(href)").getall():
            yield response.follow(link, self.parse)

    def parse_product(self, response):
        yield Product(
            title=response.css(".product .title a::text").get(),
            price=response.css(".product .price::text").get(),
            url=response.url,
            seen_by=self.category or "all",
        )


class SiteSpider(scrapy.Spider):
    """All pages of the known site, and their products."""

    name = "site"

    def __init__(self, url="", *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [url]

    def parse(self, response):
        for product in response.css("div.product"):
            yield Product(
                title=product.css("h2.title a::text").get(),
                price=product.css("span.price::text").get(),
                url=product.css("h2.title a::attr(href)").get(),
                seen_by="site",
            )
        for link in response.css("a.link::attr(href)").getall():
            # Where it begins it was already, and Scrapy does not know.
            if response.urljoin(link).replace("/m/", "/p/") not in self.start_urls:
                yield response.follow(link)


class BrokenSpider(scrapy.Spider):
    """Cannot even begin."""

    name = "broken"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        raise RuntimeError("it does not begin")
