"""Scrapy as an expert sets it up: `with_scrapy.py tuned|leanest|lxml|engine URL FILE`.

`tuned` uses Scrapy's own link extractor, selectors and feed exports. `leanest` has no middleware
and no extension at all, so it writes its own lines, and takes links with a selector. From there on
Scrapy's parts are replaced by hand: `lxml` reads pages without selectors, and `engine` keeps its
own set of URLs, too; what is left of Scrapy is engine, scheduler and downloader, and they see each
page once.
"""

import json
import sys
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import scrapy
from lxml import html
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy_settings import BARE, COMMON


class Started(scrapy.Spider):
    async def start(self):
        for url in self.start_urls:
            yield scrapy.Request(url)  # the stock one is not remembered, and would come twice


class Tuned(Started):
    name = "tuned"
    links = LinkExtractor()

    def parse(self, response):
        for product in response.css("div.product"):
            yield {
                "title": product.css("h2.title a::text").get(),
                "price": product.css("span.price::text").get(),
            }
        for link in self.links.extract_links(response):
            yield scrapy.Request(link.url)


class Leanest(Started):
    name = "leanest"

    def __init__(self, output, **rest):
        super().__init__(**rest)
        self.file = Path(output).open("w")

    def parse(self, response):
        for product in response.css("div.product"):
            self.write(product.css("h2.title a::text").get(), product.css("span.price::text").get())
        for href in response.css("a::attr(href)").getall():
            yield scrapy.Request(response.urljoin(href))

    def write(self, title, price):
        self.file.write(json.dumps({"title": title, "price": price}) + "\n")

    def closed(self, reason):
        self.file.close()


class ByHand(Leanest):
    name = "lxml"

    def __init__(self, remembers, **rest):
        super().__init__(**rest)
        self.remembers = remembers
        self.seen = set(self.start_urls)

    def parse(self, response):
        page = html.fromstring(response.body)
        for product in page.xpath('//div[@class="product"]'):
            self.write(product.findtext("h2/a"), product.findtext('span[@class="price"]'))
        base, seen = response.url, self.seen
        for href in page.xpath("//a/@href"):
            url = urldefrag(urljoin(base, href))[0]
            if url not in seen:
                if self.remembers:
                    seen.add(url)
                yield scrapy.Request(url)


kind, start, output = sys.argv[1:]
if kind == "tuned":
    process = CrawlerProcess({**COMMON, "FEEDS": {output: {"format": "jsonlines"}}})
    process.crawl(Tuned, start_urls=[start])
elif kind == "leanest":
    process = CrawlerProcess({**COMMON, **BARE})
    process.crawl(Leanest, start_urls=[start], output=output)
else:
    remembers = kind == "engine"
    own = {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"} if remembers else {}
    process = CrawlerProcess({**COMMON, **BARE, **own})
    process.crawl(ByHand, start_urls=[start], output=output, remembers=remembers)
process.start()
