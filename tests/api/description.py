"""The description of the API, made once for all tests that read it."""

from typing import Any, Final

from crawlfleet.api.app import ROUTES
from crawlfleet.api.docs.openapi import describe

DOCUMENT: Final[dict[str, Any]] = describe(ROUTES, version="1.2.3")
