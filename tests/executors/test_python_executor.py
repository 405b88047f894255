import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from crawlfleet.errors import PluginError
from crawlfleet.executors.python import FunctionRefused, Python, PythonParameters, allowed, task
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.testing.executor_suite import ExecutorSuite

pytestmark = pytest.mark.slow


class Quiet:
    task_id, attempt = "task-1", 1

    async def log(self, message: str, **fields: object) -> None: ...

    async def progress(self, done: float, total: float | None = None) -> None: ...


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("from shop.prices import double\n")
    (package / "prices.py").write_text(
        "import asyncio\n"
        "from os import getpid\n"
        "from crawlfleet.executors.python import task\n"
        "def double(x, *, by=2): return x * by\n"
        "async def later(x): await asyncio.sleep(0); return x\n"
        "def _hidden(): return 1\n"
        "number = 5\n"
        "@task('shop.half')\n"
        "def half(x): return x / 2\n"
    )
    (package / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def call(
    function: str,
    *args: object,
    allow: tuple[str, ...] = ("shop.prices:*",),
    modules: tuple[str, ...] = (),
    **kwargs: object,
) -> object:
    parameters = PythonParameters(function=function, args=list(args), kwargs=kwargs)
    return asyncio.run(Python(allow=allow, modules=modules).run(parameters, Quiet()))


@pytest.mark.parametrize(
    ("path", "pattern", "answer"),
    [
        ("shop.prices:double", "shop.prices:double", True),
        ("shop.prices:double", "shop.prices:*", True),
        ("shop.prices:double", "shop.*", True),
        ("shop.prices.old:double", "shop.prices.*", True),
        ("shop:double", "shop.*", True),
        ("shop.prices:_hidden", "shop.prices:_hidden", True),
        ("shop.prices:_hidden", "shop.prices:*", False),
        ("shop.prices:_hidden", "shop.*", False),
        ("shopping:double", "shop.*", False),
        ("shop.prices.old:double", "shop.prices:*", False),
        ("shop.prices:double", "shop.prices:half", False),
        ("shop.prices:os.system", "shop.prices:*", False),
        ("shop.prices:os.system", "shop.*", False),
        ("os:system", "*", False),
        ("os:system", ".*", False),
        ("os:", "os:*", False),
        (":system", "*", False),
    ],
)
def test_patterns_allow_what_they_say_and_no_more(path: str, pattern: str, answer: bool) -> None:
    assert allowed(path, [pattern]) is answer


def test_plain_and_async_functions_run_with_their_arguments() -> None:
    assert call("shop.prices:double", 4, by=3) == 12
    assert call("shop.prices:later", "x") == "x"
    assert call("shop:double", 4, allow=("shop.*",)) == 8


def test_registered_functions_run_by_name() -> None:
    assert call("shop.half", 3, modules=("shop.prices",)) == 1.5


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        ("os:getpid", "worker.python_allow"),
        ("shop.prices:getpid", "worker.python_allow"),
        ("shop.prices:_hidden", "worker.python_allow"),
        ("shop.prices:missing", "has no function"),
        ("shop.prices:number", "has no function"),
        ("unheard_of", "worker.python_modules"),
    ],
)
def test_refusals_name_the_remedy(function: str, remedy: str) -> None:
    with pytest.raises(FunctionRefused, match=remedy):
        call(function)


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FunctionRefused, match=r"double\(x, \*, by=2\)"):
        call("shop.prices:double")


def test_a_module_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(PluginError, match=r"'shop\.broken'.*ZeroDivisionError"):
        call("anything", modules=("shop.broken",))


def test_one_name_for_two_functions_is_refused() -> None:
    @task("tests.twice")
    def first() -> None: ...

    with pytest.raises(PluginError, match="used twice"):

        @task("tests.twice")
        def second() -> None: ...


class TestInItsProcess(ExecutorSuite):
    task_type = "python"
    settings = WorkerSettings(
        python_allow=("time:sleep", "shop.*"), python_modules=("shop.prices",)
    )
    good: ClassVar = {"function": "shop.half", "args": [4]}
    bad: ClassVar = {"function": "os:getpid"}
    endless: ClassVar = {"function": "time:sleep", "args": [90]}
