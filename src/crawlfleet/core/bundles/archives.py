"""Archives of bundles: recognises the kind of code and checks that unpacking is harmless.

An archive comes from a stranger, so all of it is checked before anything is written: names that
leave the folder, links and devices, names that collide, archives that grow out of proportion, and
content that does not match its checksum. The master checks an archive on upload, and each node
checks it again.
"""

import configparser
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.core.bundles import requirements
from crawlfleet.core.bundles.requirements import BadRequirement
from crawlfleet.core.bundles.spiders import MAX_SPIDERS, spiders_in
from crawlfleet.model.bundle import MAX_ARCHIVE_BYTES, BundleKind

MAX_FILES: Final = 5_000
MAX_UNPACKED_BYTES: Final = 100_000_000
LONGEST_NAME: Final = 240
MAX_PARTS: Final = 32
MAX_TEXT_BYTES: Final = 500_000
"""Size limit of the files whose text is read; spiders are not looked for in larger ones."""
SCRAPY: Final = "scrapy>=2.11"
"""Requirement of a Scrapy project that does not list Scrapy itself."""
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")
_STRANGE: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_ENCRYPTED: Final = 0x1
_PACKINGS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


class BadArchive(ValueError):
    """Raised for an archive that is refused; the message has the reason and the remedy."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a checked archive."""

    kind: BundleKind
    files: int
    unpacked_bytes: int
    root: str = ""
    """Folder that holds the code, with a slash at its end; empty for the top of the archive."""
    settings_module: str = ""
    """Settings module of a Scrapy project; empty for other code."""
    requirements: tuple[str, ...] = ()
    spiders: tuple[str, ...] = ()
    """Names of the spiders, as far as they can be read from the code."""


class ArchiveMember(msgspec.Struct, frozen=True):
    """A file of an archive."""

    name: str
    data: bytes
    is_program: bool


def look_into(data: bytes) -> Contents:
    """Read and check all of an archive and return its contents. Raises `BadArchive`."""
    files = 0
    size = 0
    spiders: set[str] = set()
    with _opened(data) as archive:
        infos = _checked(archive)
        for info in infos:
            content = _content(archive, info)
            size += len(content)
            files += 1
            if info.filename.endswith(".py") and len(content) <= MAX_TEXT_BYTES:
                spiders |= spiders_in(content.decode(errors="replace"))
        names = {info.filename for info in infos}
        root = _root(names)
        kind, settings = _kind(archive, names, root)
        try:
            needed = _requirements(archive, names, root, kind)
        except BadRequirement as error:
            raise BadArchive(str(error)) from None
    return Contents(
        kind=kind,
        files=files,
        unpacked_bytes=size,
        root=root,
        settings_module=settings,
        requirements=tuple(needed),
        spiders=tuple(sorted(spiders)[:MAX_SPIDERS]),
    )


def members(data: bytes) -> Iterator[ArchiveMember]:
    """Yield the files of an archive in order. Raises `BadArchive`, before the first one if the
    names are bad."""
    with _opened(data) as archive:
        for info in _checked(archive):
            mode = info.external_attr >> 16
            yield ArchiveMember(info.filename, _content(archive, info), bool(mode & stat.S_IXUSR))


def _opened(data: bytes) -> zipfile.ZipFile:
    if len(data) > MAX_ARCHIVE_BYTES:
        raise BadArchive(
            f"the archive has {len(data):,} bytes, and {MAX_ARCHIVE_BYTES:,} are allowed; leave "
            "out what is not code"
        )
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise BadArchive(
            f"this is no zip archive ({error}); hand over a folder, a .zip or a .whl"
        ) from None


def _checked(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive after checking their names and sizes."""
    infos = archive.infolist()
    if len(infos) > MAX_FILES:
        raise BadArchive(f"it has {len(infos):,} entries, and {MAX_FILES:,} are allowed")
    taken: set[str] = set()
    folders: set[str] = set()
    found = []
    for info in infos:
        _check_name(info)
        _check_entry(info)
        name = info.filename.rstrip("/")
        parents = name.split("/")[:-1]
        folders.update("/".join(parents[: end + 1]) for end in range(len(parents)))
        if info.is_dir():
            folders.add(name)
        elif name in taken:
            raise BadArchive(f"{name!r} is in it twice; which one is meant?")
        else:
            taken.add(name)
            found.append(info)
    if both := taken & folders:
        raise BadArchive(f"{min(both)!r} is both a file and a folder in it")
    total = sum(info.file_size for info in found)
    if total > MAX_UNPACKED_BYTES:
        raise BadArchive(
            f"it has {total:,} bytes when unpacked, and {MAX_UNPACKED_BYTES:,} are allowed"
        )
    if not found:
        raise BadArchive("there is no file in it")
    return found


def _check_name(info: zipfile.ZipInfo) -> None:
    name = info.filename
    if name != info.orig_filename:  # it was cut at a NUL
        raise BadArchive(f"{info.orig_filename[:80]!r} cannot be the name of a file")
    parts = name.removesuffix("/").split("/")
    if name.startswith("/") or ":" in parts[0] or ".." in parts:
        raise BadArchive(f"{name[:80]!r} leads out of the folder that it is unpacked into")
    if "" in parts or "." in parts or _STRANGE.search(name):
        raise BadArchive(f"{name[:80]!r} cannot be the name of a file")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise BadArchive(f"{name[:80]!r} is no text") from None
    if length > LONGEST_NAME or len(parts) > MAX_PARTS:
        raise BadArchive(
            f"{name[:80]!r} is too long or too deep; {LONGEST_NAME} bytes and {MAX_PARTS} "
            "levels are allowed"
        )


def _check_entry(info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadArchive(
            f"{info.filename[:80]!r} is a link or a device; put the file itself into the archive"
        )
    if info.flag_bits & _ENCRYPTED:
        raise BadArchive(f"{info.filename[:80]!r} is encrypted")
    if info.compress_type not in _PACKINGS:
        raise BadArchive(
            f"{info.filename[:80]!r} is packed in a way that is not taken; use deflate"
        )


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(info) as file:
            # No more than it says to have is ever unpacked: the sum of that was judged before.
            return file.read(info.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
        raise BadArchive(f"{info.filename[:80]!r} is damaged ({error}); pack it anew") from None


def _root(names: set[str]) -> str:
    """Return the one folder that contains everything, if there is one."""
    tops = {name.partition("/")[0] for name in names}
    if len(tops) == 1 and all("/" in name for name in names):
        (top,) = tops
        is_project = any(
            f"{top}/{name}" in names
            for name in ("scrapy.cfg", "pyproject.toml", "requirements.txt")
        )
        return f"{top}/" if is_project else ""
    return ""


def _kind(archive: zipfile.ZipFile, names: set[str], root: str) -> tuple[BundleKind, str]:
    if f"{root}scrapy.cfg" in names:
        return BundleKind.SCRAPY, _settings_module(_text(archive, f"{root}scrapy.cfg"))
    if _of_wheel(names, "WHEEL"):
        entry_points = _of_wheel(names, "entry_points.txt")
        given = (
            _configured(_text(archive, entry_points), "scrapy", "settings") if entry_points else ""
        )
        return BundleKind.WHEEL, given if _MODULE.match(given) else ""
    return BundleKind.FILES, ""


def _settings_module(text: str) -> str:
    given = _configured(text, "settings", "default")
    if not _MODULE.match(given):
        raise BadArchive(
            "scrapy.cfg names no module of settings; it has `[settings]` and `default = "
            "myproject.settings`"
        )
    return given


def _configured(text: str, section: str, name: str) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise BadArchive(f"scrapy.cfg or entry_points.txt cannot be read: {error}") from None
    return parser.get(section, name, fallback="").strip()


def _requirements(
    archive: zipfile.ZipFile, names: set[str], root: str, kind: BundleKind
) -> list[str]:
    needed: list[str] = []
    if kind is BundleKind.WHEEL:
        if metadata := _of_wheel(names, "METADATA"):
            needed = requirements.from_metadata(_text(archive, metadata))
    elif f"{root}requirements.txt" in names:
        needed = requirements.from_text(_text(archive, f"{root}requirements.txt"))
    elif f"{root}pyproject.toml" in names:
        needed = requirements.from_pyproject(_text(archive, f"{root}pyproject.toml"))
    if kind is BundleKind.SCRAPY and "scrapy" not in {requirements.names(each) for each in needed}:
        needed.append(SCRAPY)
    return needed


def _of_wheel(names: set[str], name: str) -> str:
    found = [each for each in names if each.endswith(f".dist-info/{name}") and each.count("/") == 1]
    return min(found, default="")


def _text(archive: zipfile.ZipFile, name: str) -> str:
    info = archive.getinfo(name)
    if info.file_size > MAX_TEXT_BYTES:
        raise BadArchive(f"{name!r} has {info.file_size:,} bytes, which is too much for it")
    try:
        return _content(archive, info).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadArchive(f"{name!r} is not written in UTF-8") from None
