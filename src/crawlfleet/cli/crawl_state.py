"""What `crawlfleet crawl` keeps between its runs, apart from the output: one folder a crawl.

It lies with the user's other program state, not beside the output, so that a finished crawl leaves
exactly the file that was named. Which folder follows from where the output goes.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import msgspec

from crawlfleet.crawl.run import Summary
from crawlfleet.errors import ConfigError
from crawlfleet.model.crawl import CrawlParameters, Fetching, Politeness
from crawlfleet.private_file import hold, write_private

FOLDER: Final = "crawlfleet/crawls"
KEPT_FRONTIER_BYTES: Final = 64_000_000
"""Of a finished crawl."""
MANNERS: Final = ("connect_s", "first_byte_s", "idle_s", "total_s", "max_seconds")
"""Limits that change how a crawl goes, not what it is."""


class _Notes(msgspec.Struct, kw_only=True):
    """What is written down about a crawl."""

    output: str
    identity: str
    summary: Summary | None = None
    """Once it has finished."""
    output_bytes: int = 0


class CrawlState:
    """The state of the crawl that writes to one file."""

    def __init__(self, folder: Path, output: Path, identity: str) -> None:
        self._folder = folder
        self._notes = folder / "crawl.json"
        self._identity = identity
        self.output = output
        self.frontier = folder / "frontier.db"
        self.resumed = False

    @classmethod
    def of(cls, output: Path, parameters: CrawlParameters) -> Self:
        """The state that belongs to an output."""
        output = output.absolute()
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        name = f"{output.name}-{hashlib.sha256(os.fsencode(output)).hexdigest()[:16]}"
        return cls(Path(home) / FOLDER / name, output, identity_of(parameters))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Only one process crawls into a file."""
        busy = f"a crawl into {self.output} is running already; wait for it, or stop it"
        with hold(self._folder.with_suffix(".lock"), busy=busy):
            yield

    def finished(self) -> Summary | None:
        """How the same crawl ended, if it did and its output is still there as it was."""
        notes = self._read()
        if notes is None or notes.summary is None:
            return None
        if not self.output.exists():
            self.clear()
            return None
        if notes.identity == self._identity and self.output.stat().st_size == notes.output_bytes:
            return notes.summary
        return None

    def begin(self) -> None:
        """Make ready to crawl, or to go on; raises `ConfigError` when neither is safe."""
        notes = self._read()
        if notes is None or notes.summary is not None:
            if self.output.exists() and self.output.stat().st_size:
                raise ConfigError(
                    f"{self.output} exists already, and not from this crawl; "
                    "name another file with -o, or replace it with --fresh"
                )
            self._forget()
            notes = _Notes(output=str(self.output), identity=self._identity)
            write_private(self._notes, msgspec.json.encode(notes))
            return
        if notes.identity != self._identity:
            raise ConfigError(
                f"an unfinished crawl with other options writes to {self.output}; repeat its "
                "command to go on with it, name another file with -o, or begin anew with --fresh"
            )
        self.resumed = True

    def check_known(self) -> None:
        """Raise `ConfigError` unless there was a run of the same crawl that can still be asked."""
        notes = self._read()
        if notes is None or notes.identity != self._identity or not self.frontier.exists():
            raise ConfigError(
                f"there is no run of this crawl into {self.output} that could be asked; repeat "
                "its whole command, with --why"
            )

    def end(self, summary: Summary) -> None:
        """Remember how it ended, and for --why where each URL ended unless that is much."""
        if not summary.finished:
            return
        size = self.output.stat().st_size if self.output.exists() else 0
        notes = _Notes(
            output=str(self.output),
            identity=self._identity,
            summary=summary,
            output_bytes=size,
        )
        write_private(self._notes, msgspec.json.encode(notes))
        if self.frontier.exists() and self.frontier.stat().st_size > KEPT_FRONTIER_BYTES:
            self.frontier.unlink()

    def clear(self) -> None:
        """Forget an earlier run, and remove what it wrote."""
        self._forget()
        self.output.unlink(missing_ok=True)

    def _forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _read(self) -> _Notes | None:
        try:
            return msgspec.json.decode(self._notes.read_bytes(), type=_Notes)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._notes} cannot be read ({error}); begin anew with --fresh"
            ) from error


def identity_of(parameters: CrawlParameters) -> str:
    """What makes two crawls the same one: all but their manners and their speed."""
    limits = msgspec.structs.asdict(parameters.limits)
    usual = msgspec.structs.asdict(type(parameters.limits)())
    same = msgspec.structs.replace(
        parameters,
        politeness=Politeness(),
        fetching=Fetching(),
        workers=1,
        limits=type(parameters.limits)(**{**limits, **{name: usual[name] for name in MANNERS}}),
    )
    return hashlib.sha256(msgspec.json.encode(same, order="sorted")).hexdigest()
