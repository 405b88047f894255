"""The API's own description: for programs as OpenAPI, for people as a page."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from crawlfleet import __version__
from crawlfleet.api.docs import html
from crawlfleet.api.docs.openapi import describe
from crawlfleet.api.http.routing import ANYONE, Call, Handler, Reply, Route, Scope

HTML: Final = "text/html"


def routes(table: Callable[[], Sequence[Route]]) -> tuple[Route, ...]:
    """The routes that describe `table`, themselves among it; each is made once, when asked for."""

    @cache
    def document() -> dict[str, Any]:
        return describe(table(), version=__version__)

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document())

    @cache
    def drawn() -> bytes:
        return html.draw(document()).encode()

    return (
        Route(
            name="get_openapi",
            method="GET",
            path="/api/openapi.json",
            roles=ANYONE,
            scope=Scope.PUBLIC,
            handler=_constant(lambda: Reply(body=encoded())),
            client="openapi()",
            no_command="for generators of clients",
            summary="This API as an OpenAPI 3.1 document",
            details="It is made from the same table that the requests are answered by.",
            response=dict[str, Any],
        ),
        Route(
            name="get_reference",
            method="GET",
            path="/api/reference",
            roles=ANYONE,
            scope=Scope.PUBLIC,
            handler=_constant(lambda: Reply(body=drawn(), media_type=HTML, headers=html.HEADERS)),
            client="reference()",
            no_command="for a browser",
            summary="This API as a page to read",
            details="It needs no JavaScript, and loads nothing from anywhere.",
            response=str,
            media_types=(HTML,),
        ),
    )


def _constant(reply: Callable[[], Reply]) -> Handler:
    async def handle(call: Call) -> Reply:
        return reply()

    return handle
