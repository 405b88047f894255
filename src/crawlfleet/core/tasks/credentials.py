"""Credentials in the parameters of built-in task types: references `${secret:NAME}`, never plain
text.

Everybody who may read a project's tasks can read their parameters. So a password must not be in
them: the parameters have a reference, and the node that does the work fills in the value. Messages
of this module never repeat a value.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from crawlfleet.errors import FieldProblem
from crawlfleet.model.crawl.parameters import Fetching
from crawlfleet.model.secret import MAX_OF_TASK

NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}\Z")
NAME_RULES: Final = (
    "use capitals, digits and underscores, at most 64, beginning with no digit, such as "
    "SHOP_PASSWORD"
)
BEGIN: Final = "${secret:"
REFERENCE: Final = re.compile(r"\$\{secret:([^{}]*)\}")
HEADERS: Final = frozenset({"authorization", "proxy-authorization"})
"""Headers that consist of a credential only."""
PARAMETERS: Final = frozenset(
    {"password", "passwd", "pwd", "sslpassword", "secret", "secret_key", "token", "api_key"}
)
"""Parameters of a URL that are credentials, as sinks of other packages may take them."""
TYPES: Final = frozenset({"web_crawl", "http_fetch"})
"""Task types whose parameters this module knows."""
REMEDY: Final = (
    "keep it as a secret of the project (`crawlfleet secrets set NAME`), and write "
    "${secret:NAME} in its place"
)
IN_ADDRESS: Final = (
    "write the address without it, keep `Basic` and what belongs to it as a secret of the project "
    "(`crawlfleet secrets set NAME`), and send it as the header Authorization: ${secret:NAME}"
)
_HOLE: Final = "\ue000"
"""Placeholder of a reference while the rest of a URL is parsed."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)([^?#]*)(\??[^#]*)(.*)", re.DOTALL)


class CredentialField(NamedTuple):
    """Field that may refer to secrets."""

    field: str
    """Name of the field below `parameters`."""
    text: str
    header: str | None = None
    """Name of the header, in lower case; `None` if the field is a URL."""


def places(task_type: str, parameters: Mapping[str, Any]) -> Iterator[CredentialField]:
    """Yield the fields of a task that may refer to secrets."""
    if task_type == "http_fetch":
        yield from _headers("headers", parameters.get("headers"))
    if task_type != "web_crawl":
        return
    sinks = parameters.get("sinks")
    for number, sink in enumerate(sinks if isinstance(sinks, list) else ()):
        if isinstance(sink, dict) and isinstance(url := sink.get("url"), str):
            yield CredentialField(f"sinks[{number}].url", url)
    if isinstance(fetching := parameters.get("fetching"), dict):
        if isinstance(proxy := fetching.get("proxy"), str):
            yield CredentialField("fetching.proxy", proxy)
        yield from _headers("fetching.headers", fetching.get("headers"))


def names_in(task_type: str, raw: bytes) -> tuple[str, ...]:
    """Return the secrets that the parameters of a task refer to, each once."""
    if task_type not in TYPES or b"secret:" not in raw:
        return ()
    try:
        parameters = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return ()
    if not isinstance(parameters, dict):
        return ()
    found = (REFERENCE.findall(place.text) for place in places(task_type, parameters))
    return tuple(dict.fromkeys(name for names in found for name in names))


def problems_of(
    task_type: str,
    parameters: Mapping[str, Any],
    *,
    is_template: bool = False,
    refers: bool = True,
) -> Iterator[FieldProblem]:
    """Yield the problems of credentials in parameters: credentials in plain text, and references
    where no value is filled in. A template has expressions that are computed later; `refers` says
    whether references are allowed at all."""
    if task_type not in TYPES:
        return
    known = {place.field: place for place in places(task_type, parameters)}
    for place in known.values():
        yield from _written_out(place, is_template)
    for field, address in _addresses(parameters):
        password = _authority(address).rpartition("@")[0].partition(":")[2]
        if password and not (is_template and "${" in password):
            yield _problem(field, "has a password in it", IN_ADDRESS)
    for field, text in _texts("", parameters) if refers else ():
        if BEGIN not in text:
            continue
        place_of = known.get(field)
        if place_of is None:
            yield _problem(
                field,
                "refers to a secret where none is put in its place",
                "use ${secret:…} in `sinks[].url`, `fetching.proxy`, and the values of headers",
            )
        elif text.count(BEGIN) != len(REFERENCE.findall(text)):
            yield _problem(field, "has a ${secret: without its }", "write ${secret:NAME}")
        elif place_of.header is None and _HOLE in _shown(text):
            yield _problem(
                field,
                "refers to a secret in a part of the URL that is shown to everybody",
                "use ${secret:…} as user name or password (user:${secret:NAME}@host), or as the "
                "value of a parameter",
            )


def declared_problems(
    task_type: str,
    raw: bytes,
    declared: Collection[str],
    project_id: str,
    known: Collection[str],
) -> Iterator[FieldProblem]:
    """Yield the problems of the secrets that a task declares and of those that its parameters refer
    to; `known` are the secrets of its project."""
    yield from _unknown_names(declared, project_id, known)
    names = names_in(task_type, raw)
    if not names:
        return
    if len({*declared, *names}) > MAX_OF_TASK:
        yield _problem(
            "parameters",
            "refers to too many secrets",
            f"declare and refer to {MAX_OF_TASK} in all at most",
        )
    for place in places(task_type, msgspec.json.decode(raw)):
        for name in REFERENCE.findall(place.text):
            if problem := next(_unknown_names((name,), project_id, known), None):
                yield msgspec.structs.replace(problem, field=f"parameters.{place.field}")


def _unknown_names(
    names: Collection[str], project_id: str, known: Collection[str]
) -> Iterator[FieldProblem]:
    """Yield the problems of the names that a task declares; `known` are the secrets of its
    project."""
    if len(names) > MAX_OF_TASK:
        yield _problem(
            "secrets", "are too many", f"declare at most {MAX_OF_TASK}, or put several into one"
        )
        return
    for place, name in enumerate(names):
        field = f"secrets[{place}]"
        if not NAME.match(name):
            yield _problem(field, "is not the name of a secret", NAME_RULES, name[:80])
        elif name not in known:
            yield _problem(
                field,
                f"is no secret of the project {project_id!r}",
                f"set it first (`crawlfleet secrets set {name} --project {project_id}`)",
                name,
            )


def filled(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text with references replaced by the values of secrets. Raises `KeyError`."""
    return REFERENCE.sub(lambda found: secrets[found[1]], text) if BEGIN in text else text


def filled_url(url: str, secrets: Mapping[str, str]) -> str:
    """Return a URL with references replaced by the values of secrets; each value is encoded, so
    that it cannot end or begin a part of the URL. Raises `KeyError`."""
    if BEGIN not in url:
        return url
    return REFERENCE.sub(lambda found: quote(secrets[found[1]], safe=""), url)


def filled_fetching(fetching: Fetching, secrets: Mapping[str, str]) -> Fetching:
    """Return the request settings of a crawl with references replaced by the values of secrets.
    Raises `KeyError`."""
    return msgspec.structs.replace(
        fetching,
        proxy=None if fetching.proxy is None else filled_url(fetching.proxy, secrets),
        headers={name: filled(value, secrets) for name, value in fetching.headers.items()},
    )


def _addresses(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the addresses to visit, each with the field that names it."""
    several = parameters.get("urls")
    named = {"url": parameters.get("url")}
    named |= {
        f"urls[{number}]": each
        for number, each in enumerate(several if isinstance(several, list | tuple) else ())
    }
    return ((field, address) for field, address in named.items() if isinstance(address, str))


def _authority(address: str) -> str:
    """Return user, password, host and port of a web address; empty when it is not one."""
    match = _URL.fullmatch(address.strip())
    return "" if match is None else match[2].partition("\\")[0]


def _headers(field: str, headers: Any) -> Iterator[CredentialField]:
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if isinstance(value, str):
            yield CredentialField(f"{field}.{name}", value, str(name).lower())


def _written_out(place: CredentialField, is_template: bool) -> Iterator[FieldProblem]:
    text = REFERENCE.sub(_HOLE, place.text.replace("$${", "${") if is_template else place.text)

    def is_hidden(value: str) -> bool:
        """Return whether the value is empty, one reference, or computed later."""
        return value in {"", _HOLE} or (is_template and "${" in value)

    if place.header is not None:
        computed = is_template and "${" in text
        if place.header in HEADERS and text.strip() and _HOLE not in text and not computed:
            yield _problem(place.field, "is a credential that is written out", REMEDY)
        return
    match = _parts(place, text)
    if match is None:
        return
    if not all(map(is_hidden, _passwords(match))):
        yield _problem(place.field, "has a password in it", REMEDY)
    for each in match[4].removeprefix("?").split("&"):
        name, _, value = each.partition("=")
        if name.lower() in PARAMETERS and not is_hidden(value):
            yield _problem(place.field, f"has a {name.lower()} in it", REMEDY)


def _passwords(match: re.Match[str]) -> Iterator[str]:
    """Yield the password of a URL by both readings: some parsers end it at a slash, a question mark
    or a number sign, and others do not."""
    _, authority, path, query, rest = match.groups()
    yield authority.rpartition("@")[0].partition(":")[2]
    until_slash = f"{authority}{path}{query}{rest}".partition("/")[0]
    yield until_slash.rpartition("@")[0].partition(":")[2]
    if "@" not in authority and "@" in path and not authority.rpartition(":")[2].isdigit():
        yield authority.partition(":")[2]


def _parts(place: CredentialField, text: str) -> re.Match[str] | None:
    """Match scheme, authority, path, query and the rest; a proxy may come without a scheme."""
    is_bare = place.field == "fetching.proxy" and "://" not in text
    return _URL.fullmatch(f"http://{text}" if is_bare else text)


def _shown(url: str) -> str:
    """Return the part of a URL that may be shown, with a mark for each reference in it."""
    marked = REFERENCE.sub(_HOLE, url)
    match = _URL.fullmatch(marked)
    if match is None:
        return marked
    names = [each.partition("=")[0] for each in match[4].split("&")]
    return "&".join((match[1], match[2].rpartition("@")[2], match[3], match[5], *names))


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value with their paths; names of fields as well."""
    match value:
        case str():
            yield path, value
        case dict():
            for name, inner in value.items():
                here = f"{path}.{name}" if path else str(name)
                yield f"{here} (its name)", str(name)
                yield from _texts(here, inner)
        case list():
            for number, inner in enumerate(value):
                yield from _texts(f"{path}[{number}]", inner)


def _problem(field: str, message: str, remedy: str, value: str | None = None) -> FieldProblem:
    return FieldProblem(field=field[:200], message=message, remedy=remedy, value=value)
