"""Opens the adapters that settings name by a URL: its scheme is the name of the entry point."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from crawlfleet import config, plugins
from crawlfleet.adapters.frontier.sqlite import stored_receipts
from crawlfleet.adapters.ledger.memory import MemoryBook
from crawlfleet.adapters.sinks.tables.by_url import discard
from crawlfleet.crawl.output.sinks import name_of
from crawlfleet.errors import ConfigError
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.model.own_files import PAUSES_NAME
from crawlfleet.model.settings import Settings
from crawlfleet.ports.frontier.host import FrontierServer
from crawlfleet.ports.ledger import LedgerBook
from crawlfleet.ports.locks import Locks
from crawlfleet.ports.sender import Sender
from crawlfleet.ports.store import Store
from crawlfleet.ports.store_archive import Archive


def open_store(url: str) -> Store:
    """Return the store that a URL names: its scheme is the name of the entry point."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"store: {url!r} is not a URL; use one such as sqlite:///path/file.db")
    store: Store = plugins.load_one(plugins.STORES, scheme)(url)
    return store


def open_archive(url: str) -> Archive:
    """Return the archive of the store that a URL names, for all its rows in bulk."""
    store = open_store(url)
    archive = getattr(store, "archive", None)
    if archive is None:
        raise ConfigError(f"store: {url.partition('://')[0]} stores cannot be backed up")
    opened: Archive = archive()
    return opened


def open_locks(settings: Settings) -> Locks:
    """Return the lock store that the settings name, or else one beside the store."""
    url = settings.locks or config.store_url(settings)
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"locks: {url!r} is not a URL; use one such as redis://host:6379/0")
    if not settings.locks and (scheme == "sqlite" or scheme not in plugins.names(plugins.LOCKS)):
        url, scheme = f"sqlite:///{config.data_dir(settings) / config.LOCKS_NAME}", "sqlite"
    locks: Locks = plugins.load_one(plugins.LOCKS, scheme)(url)
    return locks


def open_sender(settings: Settings) -> Sender:
    """Return the sender of webhooks: to web addresses, and to people by e-mail."""
    from crawlfleet.adapters.notify.by_scheme import SenderByScheme
    from crawlfleet.adapters.notify.http import HttpSender
    from crawlfleet.adapters.notify.mail import MailSender

    web = HttpSender(
        allow_private=settings.webhooks.allow_private, timeout_s=settings.webhooks.timeout_s
    )
    return SenderByScheme({"http": web, "https": web, "mailto": MailSender(settings.mail)})


def open_ledger(settings: Settings) -> LedgerBook | None:
    """Return the book of the politeness ledger; `None` if each crawl limits itself alone."""
    scheme, separator, _ = settings.ledger.partition("://")
    if separator:
        book: LedgerBook = plugins.load_one(plugins.LEDGERS, scheme)(settings.ledger)
        return book
    if settings.ledger not in {"on", "off"}:
        raise ConfigError(
            f"ledger: {settings.ledger!r} is neither `on`, `off` nor a URL such as "
            "redis://host:6379/0"
        )
    if settings.ledger == "off":
        return None
    return MemoryBook(
        path=config.data_dir(settings) / PAUSES_NAME,
        is_alone=config.store_url(settings).startswith("sqlite:"),
    )


def open_frontier_server(settings: Settings) -> FrontierServer | None:
    """The server for frontiers that several nodes work on; `None` where the master keeps them."""
    url = settings.frontier
    if not url:
        return None
    if url.partition("://")[0] not in {"redis", "rediss"}:
        raise ConfigError(
            "frontier: this is not the URL of a Redis; use one such as redis://host:6379/0, or "
            "leave it empty"
        )
    try:
        from crawlfleet.adapters.frontier.redis.server import RedisFrontiers
    except ImportError as error:
        raise ConfigError(
            f"frontier: Redis cannot be used here ({error}); pip install 'crawlfleet[redis]'"
        ) from error
    return RedisFrontiers(url)


async def discard_rows(specs: Sequence[SinkSpec], *, frontier: Path) -> None:
    """Remove the rows that a crawl with this frontier wrote to the tables of its sinks."""
    receipts = await asyncio.to_thread(stored_receipts, frontier)
    for spec in specs:
        if spec.format == "table" and (receipt := receipts.get(name_of(spec))) is not None:
            await discard(spec, receipt)
