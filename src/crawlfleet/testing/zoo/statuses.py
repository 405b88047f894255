"""Animals with valid HTTP whose status matters."""

from typing import Final

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import PAGE, Animal, ZooVisitor, reply, says, says_forever

OK, BAD, BLOCKED = Outcome.OK, Outcome.BAD_RESPONSE, Outcome.BLOCKED
REDIRECT, REFUSED = Outcome.REDIRECT, Outcome.REFUSED

SORRY: Final = (
    b"<html><body><p>Sorry, the page you are looking for could not be found.</p></body></html>"
)
HINT: Final = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"


def status(text: str, *headers: str) -> Animal:
    """An animal that is named after the status it answers with."""
    outcome = {
        "4": Outcome.CLIENT_ERROR,
        "5": Outcome.SERVER_ERROR,
    }[text[0]]
    number = text[:3]
    if number in {"401", "403", "407", "429", "451"}:
        outcome = BLOCKED
    elif number == "402":
        outcome = Outcome.PAYMENT_REQUIRED
    return Animal(f"status-{number}", outcome, says(reply(PAGE, *headers, status=text)))


def moved(name: str, to: str, final: Outcome) -> Animal:
    return Animal(
        name, REDIRECT, says(reply(b"", f"Location: {to}", status="302 Found")), final=final
    )


async def move_on(visitor: ZooVisitor) -> None:
    """Redirect to the same path with the next number."""
    number = int(visitor.query or 0) + 1
    await visitor.send(
        reply(b"", f"Location: {visitor.path}?{number}", status="301 Moved Permanently")
    )


async def show_next_month(visitor: ZooVisitor) -> None:
    """A calendar without an end."""
    month = int(visitor.query.removeprefix("month=") or 0)
    body = f'<html><body>Month {month}. <a href="{visitor.path}?month={month + 1}">Next</a></body>'
    await visitor.send(reply(body.encode()))


async def show_with_session(visitor: ZooVisitor) -> None:
    """Answer the same page under ever new URLs."""
    number = int(visitor.query.removeprefix("sid=") or 0) * 31 + 7
    body = f'<html><body>Welcome. <a href="{visitor.path}?sid={number}">Home</a></body></html>'
    await visitor.send(reply(body.encode()))


STATUSES: Final = (
    status("401 Unauthorized", 'WWW-Authenticate: Basic realm="zoo"'),
    status("402 Payment Required", "crawler-price: USD 0.01"),
    status("403 Forbidden"),
    status("404 Not Found"),
    status("407 Proxy Authentication Required"),
    status("410 Gone"),
    status("418 I'm a teapot"),
    status("429 Too Many Requests", "Retry-After: 2"),
    status("451 Unavailable For Legal Reasons"),
    status("500 Internal Server Error"),
    status("503 Service Unavailable", "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"),
    Animal("status-999", BLOCKED, says(reply(PAGE, status="999 Request denied"))),
    Animal("status-600", BAD, says(reply(PAGE, status="600 What"))),
    Animal("status-000", BAD, says(reply(PAGE, status="000 What"))),
    Animal("status-0", BAD, says(reply(PAGE, status="0 What"))),
    Animal("status-abc", BAD, says(reply(PAGE, status="abc What"))),
    Animal("no-content-with-content", OK, says(reply(PAGE, status="204 No Content")), body=b""),
    Animal("not-modified-unasked", BAD, says(reply(b"", status="304 Not Modified"))),
    Animal(
        "error-broken-off",
        Outcome.CLIENT_ERROR,
        says(reply(PAGE, status="404 Not Found", length=5000)),
    ),
    Animal(
        "error-endless",
        Outcome.SERVER_ERROR,
        says_forever(reply(b"", status="500 Oh", length=None), b"x" * 65536),
    ),
    Animal("hints-first", OK, says(HINT * 3 + reply(PAGE)), body=PAGE),
    Animal("hints-only", BAD, says_forever(b"", HINT)),
    Animal(
        "switches-protocols",
        BAD,
        says(
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x05"
        ),
    ),
    moved("redirect-to-itself", "redirect-to-itself", Outcome.REDIRECT_LOOP),
    Animal("redirect-endless", REDIRECT, move_on, final=Outcome.REDIRECT_LOOP),
    moved("redirect-to-file", "file:///etc/passwd", REFUSED),
    moved("redirect-to-script", "javascript:alert(1)", REFUSED),
    moved("redirect-to-metadata", "http://169.254.169.254/latest/meta-data/", REFUSED),
    moved("redirect-not-ascii", "/plain?q=gr\xc3\xbc\xc3\x9fe", OK),
    moved("redirect-to-no-url", "http://[::1", REFUSED),
    Animal("redirect-nowhere", BAD, says(reply(b"", status="302 Found"))),
    Animal("soft-404", OK, says(reply(SORRY)), final=Outcome.SOFT_404),
    Animal("calendar", OK, show_next_month),
    Animal("session-ids", OK, show_with_session),
)
