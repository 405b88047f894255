"""Archives of code for tests, good ones and others."""

import io
import zipfile
from collections.abc import Callable, Mapping

Add = Callable[[zipfile.ZipFile], None]


def packed(files: Mapping[str, str | bytes], *more: Add) -> bytes:
    """An archive of these files, and of what `more` adds."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
        for add in more:
            add(archive)
    return content.getvalue()


def entry(name: str, mode: int, text: str = "") -> Add:
    """A file of that mode, which may say that it is something else."""

    def add(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = mode << 16
        archive.writestr(info, text)

    return add
