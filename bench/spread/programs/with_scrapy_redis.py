"""A process of scrapy-redis as an expert sets it up: `with_scrapy_redis.py KIND REDIS FILE`.

`tuned` uses Scrapy's own link extractor, selectors and feed exports. `lxml` has no middleware
and no extension at all, reads pages with lxml, writes its own lines, and remembers the URLs that it
has told Redis of, so that Redis is asked once for each URL and process. Both use the FIFO queue,
which is cheaper than the stock one with priorities. The first address comes over Redis; a process
never ends by itself.
"""

import json
import sys
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import scrapy
from lxml import html
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy_redis.spiders import RedisSpider
from scrapy_settings import BARE, COMMON

SHARED = {
    **COMMON,
    "DOWNLOAD_DELAY": 0,
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
    "SCHEDULER_PERSIST": True,
}


class Shared(RedisSpider):
    name = "site"
    redis_key = "start"

    async def start(self):
        # The stock one calls what is deprecated; the first address comes when nothing is to do.
        return
        yield

    def make_request_from_data(self, data):
        return scrapy.Request(data.decode())  # the stock one is not remembered, and comes twice


class Tuned(Shared):
    links = LinkExtractor()

    def parse(self, response):
        for product in response.css("div.product"):
            yield {
                "title": product.css("h2.title a::text").get(),
                "price": product.css("span.price::text").get(),
            }
        for link in self.links.extract_links(response):
            yield scrapy.Request(link.url)


class ByHand(Shared):
    def __init__(self, output, **rest):
        super().__init__(**rest)
        self.file = Path(output).open("w")
        self.told = set()

    def parse(self, response):
        page = html.fromstring(response.body)
        for product in page.xpath('//div[@class="product"]'):
            item = {
                "title": product.findtext("h2/a"),
                "price": product.findtext('span[@class="price"]'),
            }
            self.file.write(json.dumps(item) + "\n")
        base, told = response.url, self.told
        for href in page.xpath("//a/@href"):
            url = urldefrag(urljoin(base, href))[0]
            if url not in told:
                told.add(url)
                yield scrapy.Request(url)

    def closed(self, reason):
        self.file.close()


kind, redis, output = sys.argv[1:4]
settings = {**SHARED, "REDIS_URL": redis}
if len(sys.argv) > 4:
    settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = int(sys.argv[4])
if kind == "tuned":
    process = CrawlerProcess({**settings, "FEEDS": {output: {"format": "jsonlines"}}})
    process.crawl(Tuned)
else:
    process = CrawlerProcess({**settings, **BARE})
    process.crawl(ByHand, output=output)
process.start()
