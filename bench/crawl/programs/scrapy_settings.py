"""Scrapy's settings for speed: as an expert sets it up, and without any middleware or extension."""

COMMON = {
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    "LOG_ENABLED": False,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "CONCURRENT_ITEMS": 8,  # it makes as many tasks for each page; stock are 100
    "ROBOTSTXT_OBEY": False,
    "RETRY_ENABLED": False,
    "COOKIES_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "STATS_DUMP": False,
    "DOWNLOADER_STATS": False,
    "REFERER_ENABLED": False,
    "DEPTH_STATS_VERBOSE": False,
    "MEMUSAGE_ENABLED": False,
    "EXTENSIONS": {
        "scrapy.extensions.logstats.LogStats": None,
        "scrapy.extensions.corestats.CoreStats": None,
        "scrapy.extensions.logcount.LogCount": None,
        "scrapy.extensions.remote_control.RemoteControl": None,
    },
}
BARE = {
    "DOWNLOADER_MIDDLEWARES_BASE": {},
    "SPIDER_MIDDLEWARES_BASE": {
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware": 25,  # the engine wants this one
    },
    "EXTENSIONS_BASE": {},
    "EXTENSIONS": {},
    "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
}
