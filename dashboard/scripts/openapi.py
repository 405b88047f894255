"""Write the API's description, from which the page's types are made, to a file."""

import sys
from pathlib import Path

import msgspec

from crawlfleet.api.app import ROUTES
from crawlfleet.api.docs.openapi import describe


def main(target: Path) -> None:
    """Without the version of the program: types do not change when it does."""
    document = describe(ROUTES, version="0")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(msgspec.json.format(msgspec.json.encode(document)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
