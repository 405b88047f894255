"""Log lines: their two forms, masked secrets, and a writer that does not hold anybody up."""

import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet import telemetry
from crawlfleet.telemetry import Component


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    root, threshold = logging.root.level, telemetry._threshold
    levels = {name: logging.getLogger(name).level for name in telemetry._QUIET}
    yield
    telemetry.shutdown()
    telemetry._threshold = threshold
    logging.root.setLevel(root)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def console(**options: Any) -> io.StringIO:
    out = io.StringIO()
    telemetry.configure(format="console", stream=out, **options)
    return out


def written(out: io.StringIO) -> str:
    telemetry.shutdown()
    return out.getvalue()


def test_console_line_names_component_message_and_fields() -> None:
    out = console()
    telemetry.logger(Component.MASTER).info("task submitted", task_id="task-1", count=3, took=0.25)
    assert written(out) == "[MASTER] task submitted task_id=task-1 count=3 took=0.25\n"


def test_console_shows_the_level_only_when_it_is_worth_a_look() -> None:
    out = console()
    log = telemetry.logger(Component.RECOVER)
    log.warning("node silent", node_id="node-1")
    log.error("gave up")
    assert written(out) == (
        "[RECOVER] WARNING: node silent node_id=node-1\n[RECOVER] ERROR: gave up\n"
    )


def test_terminal_gets_colour_unless_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    telemetry.configure(format="auto", stream=out)
    telemetry.logger(Component.LB).info("hello")
    assert "\x1b[94m[LB]\x1b[0m hello" in written(out)

    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    telemetry.configure(format="auto", stream=out)
    telemetry.logger(Component.LB).info("hello")
    assert written(out) == "[LB] hello\n"


def test_without_a_terminal_auto_means_json() -> None:
    out = io.StringIO()
    telemetry.configure(format="auto", stream=out)
    telemetry.logger(Component.SCHED).info("placed", task_id="task-1", slots=2)
    line = json.loads(written(out))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "component": "SCHED",
        "message": "placed",
        "task_id": "task-1",
        "slots": 2,
    }


def test_file_holds_json_lines_whatever_the_console_shows(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "master.jsonl"
    console(file=file)
    log = telemetry.logger(Component.MASTER)
    for number in range(3):
        log.info("step", number=number)
    telemetry.shutdown()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["number"] for line in lines] == [0, 1, 2]


def test_file_is_put_aside_when_it_has_grown(tmp_path: Path) -> None:
    file = tmp_path / "master.jsonl"
    console(file=file, max_file_mb=0.001, files=3)
    log = telemetry.logger(Component.MASTER)
    for number in range(100):
        log.info("step", number=number)
    telemetry.shutdown()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "master.jsonl",
        "master.jsonl.1",
        "master.jsonl.2",
    ]


def test_a_level_that_is_off_is_not_written_and_can_be_switched_later() -> None:
    log = telemetry.logger(Component.DEDUP)
    out = console(level="warning")
    log.debug("a")
    log.info("b")
    log.warning("c")
    assert written(out) == "[DEDUP] WARNING: c\n"
    out = console(level="debug")
    log.debug("d")
    assert written(out) == "[DEDUP] d\n"


@pytest.mark.parametrize(
    "name",
    ["token", "node_token", "key", "api_key", "Authorization", "x-api-key", "secret", "password"],
)
def test_fields_that_may_hold_secrets_are_masked(name: str) -> None:
    out = console()
    telemetry.logger(Component.API).info("called", **{name: "s3cr3t"}, headers={name: "s3cr3t"})
    text = written(out)
    assert "s3cr3t" not in text
    assert f"{name}=***" in text


def test_what_is_no_secret_stays_readable() -> None:
    out = console()
    telemetry.logger(Component.API).info("leased", token=7, dedup_key="a", key_id="key-1")
    assert written(out) == "[API] leased token=7 dedup_key=a key_id=key-1\n"


def test_passwords_in_urls_are_masked() -> None:
    out = console()
    telemetry.logger(Component.MASTER).info("store", url="postgresql://ann:hunter2@db/fleet")
    logging.getLogger("some.library").warning("cannot reach redis://:hunter2@cache/0")
    text = written(out)
    assert "hunter2" not in text
    assert "postgresql://ann:***@db/fleet" in text


def test_foreign_text_can_neither_break_the_line_nor_steer_the_terminal() -> None:
    out = console()
    telemetry.logger(Component.DEDUP).info("seen", url="http://a/\n[MASTER] forged", title="\x9b2J")
    text = written(out)
    assert text.count("\n") == 1
    assert "\x9b" not in text


def test_odd_values_still_make_a_json_line(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    console(file=file)
    log = telemetry.logger(Component.WORKER)
    log.info("odd", path=tmp_path, url="http://a/\udc80", level="mine")
    telemetry.shutdown()
    line = json.loads(file.read_text())
    assert line["path"] == str(tmp_path)
    assert line["level"] == "info"
    assert line["level_"] == "mine"


def test_exceptions_come_with_their_traceback(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    out = console(file=file)
    try:
        raise RuntimeError("no luck")
    except RuntimeError:
        telemetry.logger(Component.WORKER).exception("failed", task_id="task-1")
    assert "RuntimeError: no luck" in written(out)
    assert "RuntimeError: no luck" in json.loads(file.read_text())["traceback"]


def test_fields_of_the_logger_are_on_every_line() -> None:
    out = console()
    telemetry.logger(Component.WORKER).bind(node_id="node-1").info("started", task_id="task-1")
    assert written(out) == "[WORKER] started node_id=node-1 task_id=task-1\n"


def test_libraries_come_out_in_the_same_form() -> None:
    out = console(component=Component.WORKER)
    logging.getLogger("uvicorn.error").info("running on %s", "here")
    logging.getLogger("aiohttp.client").warning("slow")
    logging.getLogger("alembic.runtime").info("migrating")
    assert written(out) == (
        "[API] running on here logger=uvicorn.error\n[WORKER] WARNING: slow logger=aiohttp.client\n"
    )


def test_a_stuck_console_does_not_hold_up_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "WAITING_LINES", 5)
    stuck = threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            stuck.wait(10)
            return super().write(text)

    out = Slow()
    telemetry.configure(format="console", stream=out)
    log = telemetry.logger(Component.MASTER)
    for number in range(50):
        log.info("step", number=number)
    stuck.set()
    text = written(out)
    assert "step number=0" in text
    assert "log lines dropped count=" in text


def test_before_configure_warnings_reach_whoever_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = telemetry.logger(Component.API)
    log.info("not shown")
    log.warning("odd reply", status=500)
    assert caplog.messages == ["[API] odd reply status=500"]
