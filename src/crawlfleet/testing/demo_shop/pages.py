"""The pages of the demo shop, as HTML."""

from calendar import month_name
from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlencode

from crawlfleet.testing.demo_shop.catalogue import (
    CATEGORIES,
    PER_PAGE,
    POSTS,
    PRODUCTS,
    Post,
    Product,
)

SORTS: Final = ("price", "title", "newest", "rating")
COLOURS: Final = ("amber", "cobalt", "fern", "slate", "teal")

_STYLE: Final = """
:root{--ink:#26323d;--soft:#6b7a88;--line:#e3e8ec;--accent:#0f766e;--paper:#fbfaf7}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
header,footer,main{max-width:1080px;margin:0 auto;padding:1rem 1.5rem}
header{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;align-items:baseline}
header .name{font-size:1.5rem;font-weight:700;color:var(--ink);margin-right:auto}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem}main{min-height:60vh}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(215px,1fr));gap:1.1rem}
.card,.product,.post{background:#fff;border:1px solid var(--line);border-radius:14px}
.card,.product{overflow:hidden}.picture svg{display:block;width:100%;height:100%}
.card .about{padding:.7rem 1rem 1rem}.card h3{margin:0;font-size:1.02rem}
.picture{display:block;height:150px}.price{font-weight:700;color:var(--accent)}
.product{display:grid;grid-template-columns:minmax(220px,2fr) 3fr;max-width:820px}
.product .picture{height:100%;min-height:290px}.product .about,.post{padding:1.4rem 1.8rem}
.product .price{font-size:1.5rem}.pages{margin:1.6rem 0;display:flex;gap:1rem}
footer{color:var(--soft);border-top:1px solid var(--line);margin-top:2rem;font-size:.9rem}
footer nav{margin-top:.3rem}h1{font-size:1.7rem;margin:.6rem 0 1.1rem}
@media(max-width:640px){.product{grid-template-columns:1fr}}
"""


def page(title: str, body: str, *, session: str) -> str:
    """A whole page; `session` is in some of its links, as old shops have it."""
    menu = "".join(f'<a href="/category/{name}/">{name.title()}</a>' for name in CATEGORIES)
    extras = {
        f"/account?PHPSESSID={session}": "Account",
        f"/basket;jsessionid={session}": "Basket",
        "/search?q=lamp": "Search",
        "/calendar/": "Events",
        "/old-shop": "The old shop",
        "/slow": "Warehouse",
        "/flaky": "Stock",
        "/gone": "Jobs",
        "/admin/": "Staff",
        "mailto:hello@shop.example": "Mail",
    }
    more = "".join(f'<a href="{escape(href)}">{name}</a>' for href, name in extras.items())
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · Odds '
        f'&amp; Ends</title><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><header><a class=name href=/>Odds &amp; Ends</a>"
        f'<nav>{menu}<a href="/blog/">Blog</a></nav></header><main>{body}</main><footer>'
        f"A shop that sells nothing, to try crawls on.<nav>{more}</nav></footer></body></html>"
    )


def home() -> str:
    featured = PRODUCTS[:: len(PRODUCTS) // 8][:8]
    posts = "".join(f'<li><a href="{post.path}">{escape(post.title)}</a>' for post in POSTS[:3])
    return f"<h1>Things worth keeping</h1>{_cards(featured)}<h2>From the blog</h2><ul>{posts}</ul>"


def category(name: str, number: int) -> str:
    """One page of a category, the first being 1."""
    mine = [product for product in PRODUCTS if product.category == name]
    shown = mine[(number - 1) * PER_PAGE : number * PER_PAGE]
    turn = ""
    if number > 1:
        turn += f'<a rel="prev" href="/category/{name}/?page={number - 1}">← Back</a>'
    if number * PER_PAGE < len(mine):
        turn += f'<a rel="next" href="/category/{name}/?page={number + 1}">More →</a>'
    return f'<h1>{name.title()}</h1>{_cards(shown)}<div class="pages">{turn}</div>'


def product(of: Product) -> str:
    near = [each for each in PRODUCTS if each.category == of.category and each != of]
    others = near[of.number % len(near) :][:4]
    return (
        f'<div class="product">{_picture(of)}<div class="about">'
        f'<h2 class="title"><a href="{of.path}">{escape(of.title)}</a></h2><p>{escape(of.text)}</p>'
        f'<p><span class="price">{of.price}</span></p>'
        f'<p><a href="/image/{of.number}.png">Large picture</a></p></div></div>'
        f"<h2>Goes well with</h2>{_cards(others)}"
    )


def blog() -> str:
    posts = "".join(
        f'<p class="post"><a href="{post.path}">{escape(post.title)}</a></p>' for post in POSTS
    )
    return f"<h1>Blog</h1>{posts}"


def post(of: Post) -> str:
    named = PRODUCTS[of.number * 13 % len(PRODUCTS)]
    onward = POSTS[of.number % len(POSTS)]
    return (
        f'<article class="post"><h1>{escape(of.title)}</h1><p>{escape(of.text)}</p>'
        f'<p>See the <a href="{named.path}">{escape(named.title)}</a>, or read on: '
        f'<a href="{onward.path}">{escape(onward.title)}</a>.</p></article>'
    )


def search(words: str, sort: str, colour: str, number: int) -> str:
    """Results that can be sorted, filtered and turned over without an end: a snare."""
    found = [each for each in PRODUCTS if words.lower() in each.title.lower()][:PER_PAGE]

    def to(**changes: object) -> str:
        now = {"q": words, "sort": sort, "colour": colour, "page": number}
        return escape("/search?" + urlencode(now | changes))

    ways = [f'<a href="{to(sort=each)}">by {each}</a>' for each in SORTS]
    ways += [f'<a href="{to(colour=each)}">{each}</a>' for each in COLOURS]
    return (
        f"<h1>Results for “{escape(words)}”, page {number}</h1><p>{' · '.join(ways)}</p>"
        f'{_cards(found)}<div class="pages"><a href="{to(page=number + 1)}">More →</a></div>'
    )


def calendar(year: int, month: int) -> str:
    """A month of a calendar that has no end: another snare."""
    after = f"/calendar/{year + month // 12}/{month % 12 + 1}"
    return (
        f"<h1>{month_name[month]} {year}</h1><p>Nothing is planned.</p>"
        f'<div class="pages"><a href="{after}">Next month →</a></div>'
    )


def message(title: str, text: str) -> str:
    return f"<h1>{escape(title)}</h1><p>{escape(text)}</p>"


def picture(of: Product) -> str:
    """A drawing in SVG."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 150" '
        f'preserveAspectRatio="xMidYMid slice">'
        f'<rect width="200" height="150" fill="hsl({of.hue} 45% 86%)"/>'
        f'<circle cx="{60 + of.number % 80}" cy="76" r="{26 + of.number % 17}" '
        f'fill="hsl({of.hue} 48% 52%)"/>'
        f'<rect x="{70 + of.number % 40}" y="70" width="64" height="42" rx="9" '
        f'fill="hsl({(of.hue + 40) % 360} 52% 66%)"/></svg>'
    )


def _picture(of: Product) -> str:
    return f'<div class="picture">{picture(of)}</div>'


def _cards(products: Sequence[Product]) -> str:
    cards = "".join(
        f'<article class="card"><a href="{each.path}">{_picture(each)}</a><div class="about">'
        f'<h3><a href="{each.path}">{escape(each.title)}</a></h3>{each.price}</div></article>'
        for each in products
    )
    return f'<div class="grid">{cards}</div>'
