"""A folder of code as an archive: the same files give the same bytes, wherever and whenever."""

import fnmatch
import io
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import typer

from crawlfleet.core.bundles.archives import MAX_FILES, MAX_UNPACKED_BYTES

LEFT_OUT: Final = (
    *(
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".scrapy",
        "*.egg-info",
    ),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".idea", ".vscode", "*.pyc", "*.pyo"),
    *(".DS_Store", ".env", ".env.*", "*.pem", "*.key"),
)
"""Files that a bundle leaves out: they hold no code, or they are private."""
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def archive_of(path: Path, exclude: Sequence[str] = ()) -> bytes:
    """The archive to hand over: a file as it is, a folder packed."""
    if not path.exists():
        raise typer.BadParameter(f"{path} is not there", param_hint="PATH")
    try:
        if path.is_file():
            return path.read_bytes()
        return packed(path, exclude)
    except OSError as error:
        raise typer.BadParameter(
            f"{error.filename or path}: {error.strerror}", param_hint="PATH"
        ) from None


def packed(folder: Path, exclude: Sequence[str] = ()) -> bytes:
    """Pack a folder as a zip archive, without the files that `LEFT_OUT` and `exclude` match."""
    content = io.BytesIO()
    size = count = 0
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder, (*LEFT_OUT, *exclude)):
            data = path.read_bytes()
            size += len(data)
            count += 1
            if count > MAX_FILES or size > MAX_UNPACKED_BYTES:
                raise typer.BadParameter(
                    f"{folder} has more than {MAX_FILES:,} files or {MAX_UNPACKED_BYTES:,} "
                    "bytes; leave out what is not code with --exclude",
                    param_hint="PATH",
                )
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
            is_program = path.stat().st_mode & stat.S_IXUSR
            info.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            info.create_system = 3  # Unix, on every machine
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return content.getvalue()


def name_of(path: Path) -> str:
    """Return the default name of a bundle: that of its folder or file."""
    path = path.resolve()
    if path.suffix == ".whl":
        return path.name.partition("-")[0]
    return path.stem if path.is_file() else path.name


def _files(folder: Path, left_out: Sequence[str]) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            each for each in folders if not _is_among(here / each, folder, left_out)
        )
        for path in (here / each for each in [*folders, *files]):
            if path.is_symlink() and not _is_among(path, folder, left_out):
                raise typer.BadParameter(
                    f"{path} is a link, and bundles have none; put the file itself there, or "
                    "leave it out with --exclude",
                    param_hint="PATH",
                )
        for name in sorted(files):
            path = here / name
            if path.is_file() and not _is_among(path, folder, left_out):
                yield path


def _is_among(path: Path, folder: Path, patterns: Sequence[str]) -> bool:
    whole = path.relative_to(folder).as_posix()
    return any(
        fnmatch.fnmatchcase(path.name, each) or fnmatch.fnmatchcase(whole, each.rstrip("/"))
        for each in patterns
    )
