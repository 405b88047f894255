"""A folder as an archive: the same bytes for the same files, and no secrets among them."""

import io
import os
import zipfile
from pathlib import Path

import pytest
import typer

from crawlfleet.cli.commands import bundle_archive
from crawlfleet.core.bundles import archives


def project(folder: Path) -> Path:
    for name in (
        "scrapy.cfg",
        "shop/settings.py",
        "shop/run.sh",
        "shop/__pycache__/settings.cpython-312.pyc",
        ".git/config",
        ".env",
        "venv/bin/python",
        "data/large.csv",
        "deploy.key",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[settings]\ndefault = shop.settings\n")
    (folder / "shop" / "run.sh").chmod(0o755)
    return folder


def names(archive: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(archive)).namelist()


def test_code_is_packed_and_the_rest_is_not(tmp_path: Path) -> None:
    archive = bundle_archive.packed(project(tmp_path / "shop"), ["data/*"])

    assert names(archive) == ["scrapy.cfg", "shop/run.sh", "shop/settings.py"]
    assert archives.look_into(archive).settings_module == "shop.settings"
    programs = {each.name for each in archives.members(archive) if each.is_program}
    assert programs == {"shop/run.sh"}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    for path in two.rglob("*"):
        os.utime(path, (0, 0))

    assert bundle_archive.packed(one) == bundle_archive.packed(two)


def test_links_are_refused_unless_they_are_left_out(tmp_path: Path) -> None:
    folder = project(tmp_path / "shop")
    (folder / "link").symlink_to("/etc")

    with pytest.raises(typer.BadParameter, match="is a link"):
        bundle_archive.packed(folder)
    assert "scrapy.cfg" in names(bundle_archive.packed(folder, ["link"]))


def test_a_bundle_is_called_as_its_folder_or_file(tmp_path: Path) -> None:
    wheel = tmp_path / "my_shop-1.0-py3-none-any.whl"
    wheel.touch()
    (tmp_path / "shop.zip").touch()

    assert bundle_archive.name_of(wheel) == "my_shop"
    assert bundle_archive.name_of(tmp_path / "shop.zip") == "shop"
    assert bundle_archive.name_of(project(tmp_path / "prices")) == "prices"


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="is not there"):
        bundle_archive.archive_of(tmp_path / "none")
