"""Failures of PostgreSQL: their meaning for the program, and for the person who runs the store.

Messages name the server and never a password.
"""

import ssl
from typing import Final
from urllib.parse import parse_qs

import asyncpg  # type: ignore[import-untyped]
from asyncpg.exceptions import _base as driver  # type: ignore[import-untyped]

from crawlfleet.errors import ConfigError, CrawlfleetError, StoreUnavailable

REMEDIES: Final = {
    "28": "it does not let this user in; check the user and the password in the setting `store`, "
    "and the server's pg_hba.conf",
    "3D000": "it has no such database; create it (`createdb`), or name another in the setting "
    "`store`",
    "3F000": "it has no such schema; create it, or correct `search_path` in the setting `store`",
    "42501": "this user may not do that; make the user the owner of the database, or grant it "
    "CREATE on the schema",
    "42P01": "tables are missing; restart the master, which creates them in an empty database",
    "42P07": "it has tables of another program with the same names; name another database, or "
    "another schema by `?search_path=` in the setting `store`",
    "25006": "it is a read-only standby; name the primary, or several hosts with "
    "`target_session_attrs=primary`. If it is the primary, it was set read-only: end "
    "`default_transaction_read_only`",
    "53100": "its disk is full; free some space, the store goes on by itself",
    "53200": "it is out of memory; give it more, or let fewer programs use it",
    "53300": "it has no connection left; raise its `max_connections`, or let fewer programs use it",
    "53": "it lacks a resource; look into the server's log",
    "55P03": "somebody else holds a lock for long; end that (`select * from pg_locks`)",
    "57014": "the statement was cancelled; look for a `statement_timeout` of this user",
    "57P03": "it is starting or stopping; the store goes on by itself",
    "57": "it ended the connection; the store goes on by itself when it is back",
    "58": "its disk does not read or write; look into the server's log",
    "XX": "its data are damaged; stop, and look into the server's log",
}
"""Remedies by SQLSTATE or the beginning of one; the longest that fits is used."""
UNREACHABLE: Final = "it cannot be reached; check that it runs, and its address in `store`"
UNTRUSTED: Final = "no trusted connection; check `sslmode` and `sslrootcert` in the setting `store`"
UNKNOWN: Final = "try again, and look into the server's log if it stays so"

PASSING: Final = ("08", "40", "57P", "0A000", "25006", "25P03", "53300")
"""SQLSTATEs (or their beginnings) of failures that another try on a new connection may not meet.

0A000 is a prepared statement whose table was migrated meanwhile.
"""
UNFIT: Final = ("22", "23", "54")
"""SQLSTATEs for values that cannot be stored: no fault of the store, nor of other changes."""


def shown(url: str) -> str:
    """The address in a URL, without what may be a secret."""
    place, _, query = url.partition("?")
    scheme, _, place = place.partition("://")
    _, parted, address = place.rpartition("@")
    if "@" in url and not parted:
        return f"{scheme}://…"
    hosts = parse_qs(query).get("host", []) if address.startswith("/") else []
    return f"{scheme}://{','.join(hosts)}{address}"


def sqlstate(error: BaseException) -> str:
    if isinstance(error, driver.TargetServerAttributeNotMatched):
        return asyncpg.ReadOnlySQLTransactionError.sqlstate  # type: ignore[no-any-return]
    return getattr(error, "sqlstate", None) or ""


def is_unfit(error: Exception) -> bool:
    """Return whether a value that cannot be stored caused the error."""
    if isinstance(error, asyncpg.PostgresError):
        return sqlstate(error).startswith(UNFIT)
    unfit = isinstance(error, ValueError | TypeError | OverflowError)
    return unfit and not isinstance(error, OSError)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can hold, and so compare, a text."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_locked_out(error: Exception) -> bool:
    """Return whether another session held a lock for too long."""
    return isinstance(error, asyncpg.LockNotAvailableError)


def is_passing(error: Exception) -> bool:
    """Return whether another try on a new connection may succeed soon."""
    if is_unfit(error):
        return False
    if isinstance(error, asyncpg.PostgresError):
        return sqlstate(error).startswith(PASSING)
    lost = (OSError, asyncpg.InterfaceError, driver.InternalClientError)
    return isinstance(error, lost) and not isinstance(error, ssl.SSLCertVerificationError)


def why_unfit(error: Exception) -> str:
    """Return the error in one line, without the value itself."""
    if sqlstate(error) == "22021":
        return "text has a NUL character or is not UTF-8"
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {str(cause).splitlines()[0][:200]}" if str(cause) else "?"


def explain(error: Exception, address: str) -> CrawlfleetError:
    """The error to raise for `error`: what happened, to which server, and what to do."""
    if isinstance(error, CrawlfleetError):
        return error
    if isinstance(error, driver.ClientConfigurationError):
        return misread(address)
    state = sqlstate(error)
    fitting = [known for known in REMEDIES if state.startswith(known)]
    if fitting:
        remedy = REMEDIES[max(fitting, key=len)]
    elif isinstance(error, ssl.SSLError):
        remedy = UNTRUSTED
    else:
        remedy = UNREACHABLE if is_passing(error) else UNKNOWN
    told = str(error).splitlines()[0][:300] if str(error) else "no answer in time"
    name = state or type(error).__name__
    explained = StoreUnavailable(f"the store {address} failed: {remedy} ({name}: {told})")
    explained.__cause__ = error
    return explained


def misread(address: str) -> ConfigError:
    """Return the error for a URL that the driver cannot parse; the driver's own message could hold
    the password.
    """
    return ConfigError(
        f"store: the URL of {address} cannot be understood; use one such as "
        "postgresql://user:password@host:5432/database, with %-signs for special characters "
        "(%40 for @, %2F for /)"
    )
