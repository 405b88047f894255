"""Environments on a node: made once, whole or not at all, kept within a bound."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.uv import UvInstall, class_of, find_uv, variables
from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.installer import InstallFailed
from crawlfleet.worker.code import environments as environments_module
from crawlfleet.worker.code.environments import CannotMake, Environments, NoCode
from tests.code_archives import packed

pytestmark = pytest.mark.slow

MB = 1_000_000


class FakeInstall:
    """In place of uv: counts, and fails as told."""

    def __init__(self, *, takes_s: float = 0.0, size: int = 10) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.failure: InstallFailed | None = None
        self._takes_s = takes_s
        self._size = size

    async def __call__(
        self, requirements: Sequence[str], venv: str, tell: Callable[[str], None]
    ) -> None:
        self.calls.append(tuple(requirements))
        tell("installing")
        await asyncio.sleep(self._takes_s)
        if self.failure is not None:
            raise self.failure
        (Path(venv) / "bin").mkdir(parents=True)
        (Path(venv) / "bin" / "python").write_bytes(bytes(self._size))


class Master:
    """Has archives, and counts who fetches."""

    def __init__(self, *files: str) -> None:
        self.archives = [packed({"tool.py": text}) for text in files or ("1",)]
        self.fetched = 0

    def ref(self, number: int = 0) -> BundleRef:
        digest = hashlib.sha256(self.archives[number]).hexdigest()
        return BundleRef(name="tools", number=number + 1, digest=digest)

    def fetch(self, number: int = 0) -> Callable[[], "asyncio.Future[bytes]"]:
        async def fetch() -> bytes:
            self.fetched += 1
            return self.archives[number]

        return fetch  # type: ignore[return-value]


def environments(folder: Path, install: FakeInstall, most_bytes: int = MB) -> Environments:
    return Environments(folder, install=install, most_bytes=most_bytes)


def test_many_who_want_it_at_once_have_it_made_once(tmp_path: Path) -> None:
    install, master, told = FakeInstall(takes_s=0.05), Master(), list[str]()
    # Two agents of one machine share the folder.
    agents = [environments(tmp_path, install), environments(tmp_path, install)]

    async def use(agent: Environments) -> str:
        async with agent.borrowed(master.ref(), master.fetch(), told.append) as found:
            return (found.code / "tool.py").read_text()

    async def scenario() -> list[str]:
        return await asyncio.gather(*(use(each) for each in agents * 8))

    assert asyncio.run(scenario()) == ["1"] * 16
    assert (len(install.calls), master.fetched) == (1, 1)
    assert "installing" in told
    assert agents[0].kept() == [master.ref().digest]


def test_whoever_is_cancelled_leaves_it_to_the_next(tmp_path: Path) -> None:
    install, master = FakeInstall(takes_s=0.2), Master()
    agent = environments(tmp_path, install)

    async def use() -> bool:
        async with agent.borrowed(master.ref(), master.fetch(), print):
            return True

    async def scenario() -> None:
        first = asyncio.create_task(use())
        while not install.calls:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(use())
        await asyncio.sleep(0.05)
        first.cancel()
        assert await second
        assert first.cancelled()

    asyncio.run(scenario())
    assert len(install.calls) == 2
    assert [path.name for path in tmp_path.glob("[!.]*")] == [master.ref().digest]
    assert [*tmp_path.glob(".*building")] == []


def test_what_cannot_be_made_is_not_tried_again_and_again(tmp_path: Path) -> None:
    install, master = FakeInstall(), Master()
    install.failure = InstallFailed("no such package", ErrorClass.INVALID, "uv said so")
    agent = environments(tmp_path, install)

    async def scenario() -> None:
        for _ in range(3):
            with pytest.raises(CannotMake, match="no such package") as caught:
                async with agent.borrowed(master.ref(), master.fetch(), print):
                    pass
            assert (caught.value.error_class, caught.value.details) == ("invalid", "uv said so")

    asyncio.run(scenario())
    assert len(install.calls) == 1
    assert [*tmp_path.glob("[!.]*")] == []


def test_a_broken_line_is_tried_again_and_one_execution_does_not_spoil_it_for_others(
    tmp_path: Path,
) -> None:
    install, master = FakeInstall(), Master()
    agent = environments(tmp_path, install)

    async def refused() -> bytes:
        raise NoCode("the execution is over")

    async def scenario() -> None:
        install.failure = InstallFailed("connection refused", ErrorClass.NETWORK)
        with pytest.raises(CannotMake) as caught:
            async with agent.borrowed(master.ref(), master.fetch(), print):
                pass
        assert caught.value.error_class is ErrorClass.NETWORK
        install.failure = None
        with pytest.raises(CannotMake, match="is over"):
            async with agent.borrowed(master.ref(), refused, print):
                pass
        async with agent.borrowed(master.ref(), master.fetch(), print) as found:
            assert found.code.is_dir()

    asyncio.run(scenario())


def test_those_not_used_for_longest_go_first_and_none_in_use(tmp_path: Path) -> None:
    install, master = FakeInstall(size=400_000), Master("a", "b", "c", "d")
    agent = environments(tmp_path, install, most_bytes=MB)

    async def use(number: int) -> None:
        async with agent.borrowed(master.ref(number), master.fetch(number), print):
            pass

    async def scenario() -> None:
        await use(0)
        await use(1)
        for number, age_s in ((0, 100), (1, 50)):
            made = tmp_path / master.ref(number).digest / "made.json"
            os.utime(made, (time.time() - age_s, time.time() - age_s))
        async with agent.borrowed(master.ref(0), master.fetch(0), print):
            # Used just now: the other one goes.
            await use(2)
            assert {*agent.kept()} == {master.ref(0).digest, master.ref(2).digest}
            await use(3)
            assert master.ref(0).digest in agent.kept()
        await agent.tidy()
        assert len(agent.kept()) == 2

    asyncio.run(scenario())


def test_one_that_goes_meanwhile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "made.json").touch()
    seen = [tmp_path / digest / "made.json" for digest in ("gone", "here")]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(seen))
    assert environments(tmp_path, FakeInstall()).kept() == ["here"]


def test_what_a_compiler_left_that_was_killed_is_compiled_anew(tmp_path: Path) -> None:
    master, compiled = Master(), list[str]()

    async def compile(folder: Path) -> bool:
        assert not (folder / "bytecode").exists()
        compiled.append(folder.name)
        return True

    agent = Environments(tmp_path, install=FakeInstall(), most_bytes=MB, compile=compile)
    left = tmp_path / master.ref().digest / "bytecode"

    async def use() -> None:
        async with agent.borrowed(master.ref(), master.fetch(), print):
            assert len(compiled) == 1 or not left.exists()

    async def scenario() -> None:
        await use()
        await use()
        assert len(compiled) == 1
        async with agent.borrowed(master.ref(), master.fetch(), print):
            (left / "deep").mkdir(parents=True)
            await use()
            assert len(compiled) == 1, "somebody uses it"
        await use()
        assert len(compiled) == 2
        await use()
        assert len(compiled) == 2

    asyncio.run(scenario())


def test_what_cannot_be_cleared_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f".{'0' * 64}.gone"
    left.mkdir()
    told: list[dict[str, Any]] = []
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    monkeypatch.setattr(environments_module.log, "warning", lambda _, **fields: told.append(fields))
    asyncio.run(environments(tmp_path, FakeInstall()).tidy())
    assert [each["folder"] for each in told] == [str(left)]


def test_one_whose_maker_is_killed_is_made_anew(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from crawlfleet.worker.code.environments import Environments
        from tests.worker.code.test_environments import FakeInstall, Master

        async def main():
            install, master = FakeInstall(takes_s=60), Master()
            agent = Environments(Path(sys.argv[1]), install=install, most_bytes=10**6)
            tell = lambda line: print(line, flush=True)
            async with agent.borrowed(master.ref(), master.fetch(), tell):
                pass

        asyncio.run(main())
        """
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert maker.stdout is not None
    while "installing" not in maker.stdout.readline():
        assert maker.poll() is None
    assert [*tmp_path.glob(".*building")]
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()

    install, master = FakeInstall(), Master()
    agent = environments(tmp_path, install)

    async def scenario() -> None:
        async with agent.borrowed(master.ref(), master.fetch(), print) as found:
            assert (found.code / "tool.py").read_text() == "1"

    asyncio.run(scenario())
    assert len(install.calls) == 1
    assert [*tmp_path.glob(".*building")] == []


def test_a_hostile_archive_leaves_nothing(tmp_path: Path) -> None:
    agent = environments(tmp_path / "code", FakeInstall())
    master = Master()
    master.archives = [packed({"../../evil.py": ""})]

    async def scenario() -> None:
        with pytest.raises(CannotMake) as caught:
            async with agent.borrowed(master.ref(), master.fetch(), print):
                pass
        assert caught.value.error_class is ErrorClass.INVALID

    asyncio.run(scenario())
    assert [path.name for path in tmp_path.iterdir()] == ["code"]
    assert [*(tmp_path / "code").glob("[!.]*")] == []


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("× No solution found when resolving dependencies", ErrorClass.INVALID),
        ("Because x was not found in the package registry", ErrorClass.INVALID),
        ("error: Failed to fetch: `https://index.example/x/`", ErrorClass.NETWORK),
        ("error sending request for url: operation timed out", ErrorClass.NETWORK),
        ("No space left on device", ErrorClass.ERROR),
    ],
)
def test_what_uv_says_tells_whether_trying_again_can_help(said: str, wanted: ErrorClass) -> None:
    assert class_of(said) is wanted


def test_uv_hears_of_the_index_and_of_no_secret_of_ours() -> None:
    given = variables(
        {
            "PATH": "/bin",
            "UV_CACHE_DIR": "/cache",
            "https_proxy": "http://proxy:1",
            "CRAWLFLEET_JOIN_TOKEN": "secret",
            "CRAWLFLEET_KEY": "secret",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "HOMEBREW_GITHUB_API_TOKEN": "secret",
            "PATH_TO_SECRET": "secret",
            "TZ_KEY": "secret",
        }
    )
    assert "secret" not in given.values()
    assert {"PATH", "UV_CACHE_DIR", "https_proxy"} <= given.keys()


def test_nothing_of_a_package_runs_while_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    about = "evil-1.0.dist-info"
    files = {
        "evil.pth": f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n",
        "evil.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    wheel = wheels / "evil-1.0-py3-none-any.whl"
    wheel.write_bytes(packed({**files, f"{about}/RECORD": listed}))
    for name, value in {
        "UV_FIND_LINKS": str(wheels),
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_COMPILE_BYTECODE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    venv = tmp_path / "place" / "venv"
    venv.parent.mkdir()

    asyncio.run(UvInstall(uv=find_uv(), timeout_s=100)(["evil==1.0"], str(venv), print))

    assert [*venv.glob("lib/*/site-packages/evil.pth")]
    assert not ran.exists()
    # As it would, were that Python started.
    subprocess.run([venv / "bin" / "python", "-I", "-c", ""], check=True, timeout=60)
    assert ran.exists()
