from pathlib import Path

import pytest

from crawlfleet import plugins
from crawlfleet.errors import PluginError
from crawlfleet.executors.sleep import Sleep

GROUP = "crawlfleet.test_parts"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, *entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "\n".join(entries) + "\n")


def test_built_in_executors_are_entry_points() -> None:
    assert {"http_fetch", "python", "sleep"} <= set(plugins.names(plugins.EXECUTORS))
    assert plugins.load(plugins.EXECUTORS)["sleep"] is Sleep
    assert plugins.load_one(plugins.EXECUTORS, "sleep") is Sleep


def test_names_come_sorted_and_without_an_import(packages: Path) -> None:
    install(packages, "acme", "zeta = no_such_module:x", "alpha = no_such_module:y")

    assert plugins.names(GROUP) == ("alpha", "zeta")


def test_a_broken_part_is_named_with_its_package(packages: Path) -> None:
    install(packages, "acme", "zeta = no_such_module:x")

    with pytest.raises(PluginError, match=r"'zeta' of acme 1\.0 .*no_such_module"):
        plugins.load(GROUP)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(packages: Path) -> None:
    install(packages, "acme", "zeta = acme_store:x")
    (packages / "acme_store.py").write_text("import no_such_driver.inner")
    metadata = packages / "acme-1.0.dist-info" / "METADATA"
    with metadata.open("a") as file:
        file.write("Requires-Dist: other>=1 ; extra == 'big'\n")
        file.write("Requires-Dist: no-such-driver>=0.30 ; extra == 'stores'\n")

    with pytest.raises(PluginError, match=r"needs the package 'no_such_driver'.*acme\[stores\]"):
        plugins.load_one(GROUP, "zeta")


def test_a_name_offered_twice_is_refused_with_both_packages(packages: Path) -> None:
    install(packages, "acme", "part = os:getpid")
    install(packages, "bolt", "part = os:getppid")

    with pytest.raises(PluginError, match="by acme") as caught:
        plugins.names(GROUP)
    assert "bolt 1.0" in str(caught.value)


def test_a_missing_part_is_refused_with_what_there_is(packages: Path) -> None:
    install(packages, "acme", "part = os:getpid")

    with pytest.raises(PluginError, match=r"'other' .*offered: part"):
        plugins.load_one(GROUP, "other")


def test_an_empty_group_is_empty() -> None:
    assert plugins.load("crawlfleet.no_such_group") == {}


def test_what_is_offered_can_be_looked_up_once_for_a_while(packages: Path) -> None:
    install(packages, "acme", "part = os:getpid")
    with plugins.remembering(GROUP):
        install(packages, "bolt", "other = os:getppid")
        assert plugins.names(GROUP) == ("part",)
    assert plugins.names(GROUP) == ("other", "part")


def test_what_is_offered_twice_is_told_to_whoever_wants_it(packages: Path) -> None:
    install(packages, "acme", "part = os:getpid")
    install(packages, "bolt", "part = os:getppid")
    with plugins.remembering(GROUP), pytest.raises(PluginError, match="by acme"):
        plugins.names(GROUP)
