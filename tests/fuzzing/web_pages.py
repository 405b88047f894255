"""Pages as the web has them, and as people write them who want to hurt a crawler.

All of it follows from the generator of chance that is handed in, so that a seed is a page.
"""

import random
import re
from collections.abc import Callable
from typing import Final

TAGS: Final = re.findall(
    r"\S+",
    "div span p a ul li table tr td th tbody b i font select option optgroup form input button "
    "svg g path math template frameset iframe noscript style textarea title h1 h2 article "
    "section dl dt dd ruby rt details summary nobr center marquee object applet plaintext xmp "
    "listing br hr img meta link base body html head colgroup col caption video source picture "
    "canvas dialog ",
)
NAMES: Final = re.findall(
    r"\S+",
    "href src class id style title rel name content itemscope itemprop itemtype property data-x "
    "onclick width charset http-equiv lang dir value checked ",
)
WORDS: Final = (
    "tea",
    "coffee",
    "shop",
    "price",
    "19.99",
    "£5",
    "1.234,56",
    "€",
    "今天",
    "商品",
    "цена",
    "x",
    "y",
    "z",
    "not",
    "found",
    "access",
    "denied",
    "captcha",
    "&amp;",
    "&#0;",
    "&#xD800;",
    "&notanentity;",
    "\u202e",
    "\u200b",
    "2026-11-19",
    "true",
)
ADDRESSES: Final = (
    "/a/b/c",
    "../../..",
    "?q=中文&q=%zz",
    "//other.example/x",
    "javascript:void(0)",
    "data:text/html,<p>",
    "http://[::1",
    "http://user:pass@host/",
    "mailto:a@b",
    "#top",
    "https://shop.example/" + "a/" * 200,
    "https://shop.example/?" + "&".join(f"a{n}={n}" for n in range(200)),
    "\t\n/x y\x00z",
    "%ff%fe",
    "https://xn--/",
    "https://shop.example:99999/",
)


def web_page(chance: random.Random, size: int) -> bytes:
    """About so many bytes of HTML, often with something broken in it."""
    few = chance.sample(BLOCKS, chance.randint(1, 4))
    pieces = [b"<!doctype html><html><head><title>tea</title></head><body>"]
    length = 0
    while length < size:
        piece = chance.choice(few)(chance, chance.randint(1, max(1, size - length)))
        pieces.append(piece)
        length += len(piece) + 1
    body = b"".join(pieces)[: size + 1000]
    return broken(chance, body) if chance.random() < 0.4 else body


def broken(chance: random.Random, body: bytes) -> bytes:
    """Bytes changed, cut out, doubled or inserted in a few places."""
    changed = bytearray(body)
    for _ in range(chance.choice((1, 3, 30))):
        at = chance.randrange(len(changed) + 1)
        length = min(chance.choice((1, 1, 8, 1000)), len(changed) - at)
        match chance.randrange(4):
            case 0:
                changed[at : at + length] = chance.randbytes(length)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case _:
                changed[at:at] = chance.choice(ODD)
    return bytes(changed)


ODD: Final = (b"\0", b"<", b">", b'"', b"'", b"<!--", b"-->", b"]]>", b"<![CDATA[", b"\xff", b"&")
ODD += (b"</", b"<?", b"<script", b"</script>", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"=", b"/>")


def text(chance: random.Random, size: int) -> bytes:
    return (" ".join(chance.choices(WORDS, k=max(1, size // 6)))).encode()[:size]


def one_word(chance: random.Random, size: int) -> bytes:
    return chance.choice((b"a", b" ", b"\n", b"&", b"<", b"=", b"'", b"\xc3\xa4", b"-")) * size


def attribute(chance: random.Random, longest: int = 60) -> str:
    name = chance.choice(NAMES)
    value = chance.choice((*ADDRESSES, *WORDS, "a" * chance.randint(0, longest)))
    quote = chance.choice(('"', "'", "", '"'))
    return f"{name}={quote}{value}{quote}"


def tag(chance: random.Random) -> str:
    attributes = " ".join(attribute(chance) for _ in range(chance.choice((0, 0, 1, 2, 5))))
    return f"<{chance.choice(TAGS)} {attributes}>"


def soup(chance: random.Random, size: int) -> bytes:
    """Tags and words in any order, few of them closed."""
    kit = [tag(chance) for _ in range(20)] + [f"</{name}>" for name in chance.sample(TAGS, 5)]
    kit += chance.choices(WORDS, k=10)
    return "".join(chance.choices(kit, k=max(1, size // 20))).encode()[:size]


def nested(chance: random.Random, size: int) -> bytes:
    """The same few tags within each other, up to the end."""
    unit = "".join(tag(chance) for _ in range(chance.randint(1, 3))).encode()
    return unit * (size // len(unit) + 1)


def siblings(chance: random.Random, size: int) -> bytes:
    name = chance.choice(TAGS)
    unit = f"<{name} {attribute(chance)}>{chance.choice(WORDS)}</{name}>".encode()
    return unit * (size // len(unit) + 1)


def many_attributes(chance: random.Random, size: int) -> bytes:
    """A tag with up to hundreds of thousands of them, perhaps never closed."""
    name = chance.choice(TAGS)
    distinct = chance.random() < 0.5
    unit = attribute(chance, 5)
    count = size // (len(unit) + 4) + 1
    attributes = " ".join(f"a{n}={n}" if distinct else unit for n in range(count))
    return f"<{name} {attributes}{chance.choice(('>', '/>', '', ' = '))}".encode()


def script(chance: random.Random, size: int) -> bytes:
    """A minified script, where much looks like mark-up."""
    kit = ("if(a<b)", "for(i=0;i<n;i++)", '"</div>"', "x=>y", "<!--", "&&", "'<p>'", "a<b c d e ")
    kit += ("/*", "*/", "`${x}`", "//", "\\", "return<T>(z)")
    body = "".join(chance.choices(kit, k=max(1, size // 8)))
    return f"<script>{body}{chance.choice(('</script>', '', '</scrip'))}".encode()


def inline_json(chance: random.Random, size: int) -> bytes:
    kind = chance.choice(("application/ld+json", "application/json"))
    return f'<script type="{kind}">'.encode() + json_document(chance, size) + b"</script>"


def json_document(chance: random.Random, size: int) -> bytes:
    """JSON: deep, wide, with huge numbers, lone surrogates and many keys; often not quite JSON."""
    match chance.randrange(5):
        case 0:
            depth = min(size // 6, chance.choice((10, 190, 210, 900, 100_000)))
            return b'{"a":' * depth + b"1" + b"}" * depth
        case 1:
            return b"[" * size
        case 2:
            rows = ('{"@type":"Product","name":"tea","price":1e999,"big":%s},' % ("9" * 400),)
            return ("[" + "".join(rows) * (size // 450 + 1) + "{}]").encode()
        case 3:
            keys = ",".join(f'"k{n}":"\\ud800\\u0000{n}"' for n in range(size // 24 + 1))
            return f'{{"@graph":[{{{keys}}}]}}'.encode()
        case _:
            return (b'{"a":"' + text(chance, size).replace(b'"', b"") + b'"}')[: size + 10]


def data_address(chance: random.Random, size: int) -> bytes:
    data = b"iVBORw0KGgo" * (size // 11 + 1)
    return b'<img src="data:image/png;base64,' + data + chance.choice((b'">', b"", b"'>"))


def microdata(chance: random.Random, size: int) -> bytes:
    unit = b"<div itemscope itemprop='x y' itemtype=t>" + chance.choice((b"", b"</div>"))
    return unit * (size // len(unit) + 1)


def comments(chance: random.Random, size: int) -> bytes:
    unit = chance.choice((b"<!-- a -->", b"<!--", b"<!-->", b"<!--[if IE]><p><![endif]-->", b"<!x"))
    return unit * (size // len(unit) + 1)


def table(chance: random.Random, size: int) -> bytes:
    """Tables within tables, or very long ones, with cells where none belong."""
    unit = chance.choice(
        (b"<table><tr><td>", b"<tr><td>1<td>2", b"<table><b><i>x", b"<td></table><tr>")
    )
    return b"<table>" + unit * (size // len(unit) + 1)


def links(chance: random.Random, size: int) -> bytes:
    kit = [f'<a href="{chance.choice(ADDRESSES)}{n}">x</a>' for n in range(200)]
    return "".join(chance.choices(kit, k=size // 40 + 1)).encode()


def noise(chance: random.Random, size: int) -> bytes:
    return chance.randbytes(min(size, 100_000))


BLOCKS: Final[list[Callable[[random.Random, int], bytes]]] = [
    text,
    one_word,
    soup,
    nested,
    siblings,
    many_attributes,
    script,
    inline_json,
    data_address,
    microdata,
    comments,
    table,
    links,
    noise,
]
