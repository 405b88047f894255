"""Animals that live at addresses of their own: TLS gone wrong, names, forbidden places."""

from typing import Final

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import PAGE, Animal

TLS, REFUSED = Outcome.TLS, Outcome.REFUSED

FORBIDDEN: Final = (
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fd00:ec2::254]",
    "0.0.0.0",  # noqa: S104 (a destination)
    "[::]",
    "[ff02::1]",
    "255.255.255.255",
)

PLACES: Final = (
    Animal("tls-good", Outcome.OK, url="https://localhost:{port:good}/plain", body=PAGE),
    Animal("tls-self-signed", TLS, url="https://localhost:{port:self-signed}/plain"),
    Animal("tls-expired", TLS, url="https://localhost:{port:expired}/plain"),
    Animal("tls-wrong-host", TLS, url="https://localhost:{port:wrong-host}/plain"),
    Animal("tls-garbage", TLS, url="https://localhost:{port:garbage}/"),
    Animal("tls-hangs-up", TLS, url="https://localhost:{port:hangs-up}/"),
    Animal("tls-on-a-plain-port", TLS, url="https://localhost:{port:plain}/plain"),
    Animal("tls-silent", Outcome.TIMEOUT, url="https://localhost:{port:silent}/", slow=True),
    Animal("plain-on-a-tls-port", Outcome.BAD_RESPONSE, url="http://localhost:{port:good}/plain"),
    Animal("port-closed", Outcome.CONNECT, url="http://localhost:{port:closed}/"),
    Animal("name-unknown", Outcome.DNS, url="http://nobody-is-here.invalid/"),
    Animal("name-too-long", Outcome.DNS, url=f"http://{'a' * 70}.invalid/"),
    Animal("scheme-file", REFUSED, url="file:///etc/passwd"),
    Animal("scheme-data", REFUSED, url="data:text/html,hello"),
    Animal("no-url", REFUSED, url="http://[::1/"),
    Animal("port-zero", REFUSED, url="http://localhost:0/"),
    *(Animal(f"forbidden-{host}", REFUSED, url=f"http://{host}/") for host in FORBIDDEN),
)
