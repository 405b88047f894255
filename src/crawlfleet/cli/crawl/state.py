"""The state that `crawlfleet crawl` keeps between its runs: one folder for each crawl.

The folder lies with the user's other program state, not beside the output, so that a finished crawl
leaves exactly the files that `-o` names. The outputs determine the folder.

A later round (`--revisit`) writes its changes into the folder, too. Only when the round has
finished are the files put together anew, and each is moved to its place in one step. A reader thus
always sees a complete file, of this round or of the one before.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import msgspec

from crawlfleet.adapters.sinks.rebuild import RENEWABLE, Written, renew, renew_index
from crawlfleet.cli.crawl.outputs import OutputFile
from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.errors import ConfigError
from crawlfleet.model.crawl.parameters import CrawlParameters, Fetching, Politeness, SinkSpec
from crawlfleet.private_file import hold, write_private

FOLDER: Final = "crawlfleet/crawls"
KEPT_FRONTIER_BYTES: Final = 512_000_000
"""The frontier of a finished crawl is deleted when it is larger than this."""
MANNERS: Final = ("connect_s", "first_byte_s", "idle_s", "total_s", "max_seconds")
"""Limits that do not change the identity of a crawl."""


class SubmittedCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl that was submitted to a fleet."""

    key: str
    """Idempotency key of the crawl: to submit it again starts no second crawl."""
    task_id: str = ""
    """Task of the crawl; empty until the fleet has answered."""


class _Notes(msgspec.Struct, kw_only=True):
    """The saved record of a crawl, in `crawl.json`."""

    outputs: tuple[str, ...]
    identity: str
    round: int = 1
    summary: Summary | None = None
    """Summary of the last round; `None` until that has finished."""
    publishing: bool = False
    """The files of a finished round are being moved to their places."""
    sizes: dict[str, int] = {}
    """Sizes of the files after the last finished round, in bytes."""
    sent: SubmittedCrawl | None = None
    """The crawl on a fleet; `None` for one in this process."""
    replacing: bool = False
    """The crawl may replace files that were there before."""


class CrawlState:
    """The state of the crawl that writes to some places."""

    def __init__(self, folder: Path, outputs: Sequence[OutputFile], identity: str) -> None:
        self._folder = folder
        self._path = folder / "crawl.json"
        self._identity = identity
        self._outputs = outputs
        self.frontier = folder / "frontier.db"
        self.resumed = False
        self.round = 1

    @classmethod
    def of(
        cls, outputs: Sequence[OutputFile], parameters: CrawlParameters, *, on_fleet: bool = False
    ) -> Self:
        """The state that belongs to the outputs. The same crawl `on_fleet` is another one."""
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        first = outputs[0]
        title = first.path.name if first.path else first.spec.format
        key = "\n".join(output.name for output in outputs)
        name = f"{title}-{hashlib.sha256(os.fsencode(key)).hexdigest()[:16]}"
        identity = identity_of(parameters)
        return cls(
            Path(home) / FOLDER / name, outputs, f"fleet:{identity}" if on_fleet else identity
        )

    @property
    def name(self) -> str:
        """Names of the outputs, for messages."""
        return ", ".join(output.name for output in self._outputs)

    @property
    def index(self) -> Path:
        """File that maps the items of this round to their pages."""
        return self._folder / f"pages-{self.round}.idx"

    def sinks(self) -> tuple[SinkSpec, ...]:
        """Return the sinks of this round."""
        if self.round == 1:
            return tuple(output.spec for output in self._outputs)
        self._changes.mkdir(exist_ok=True)
        return tuple(
            msgspec.structs.replace(output.spec, url=str(self._changed(output)))
            if output.path
            else output.spec
            for output in self._outputs
        )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of these outputs: only one process crawls into them."""
        busy = f"a crawl into {self.name} is running already; wait for it, or stop it"
        with hold(self._folder.with_name(f"{self._folder.name}.lock"), busy=busy):
            yield

    def finished(self) -> Summary | None:
        """Return the summary of an earlier run of the same crawl; `None` when it did not finish, or
        its output has changed since."""
        notes = self._read()
        if notes is None or notes.summary is None:
            return None
        files = [output.path for output in self._outputs if output.path]
        if len(files) == len(self._outputs) and not any(path.exists() for path in files):
            if notes.sent is None:
                self.forget()
            else:  # the fleet still has it
                notes.summary = None
                self._write(notes)
            return None
        same = notes.identity == self._identity and self._sizes() == notes.sizes
        return notes.summary if same else None

    def begin(self, *, revisit: bool = False, replacing: bool = False) -> None:
        """Make ready to crawl, to go on, or to go through all pages again; raises `ConfigError`
        when that is not safe. When `replacing`, files may be there: each is replaced in the end."""
        notes = self._read()
        if notes is not None and notes.summary is None:
            if notes.identity != self._identity:
                raise ConfigError(
                    f"an unfinished crawl with other options writes to {self.name}; repeat its "
                    "command to go on with it, name another file with -o, or begin anew with "
                    "--fresh"
                )
            self.resumed = True
        elif notes is not None and revisit:
            self._check_revisit(notes)
            notes.round += 1
            notes.summary = None
            self._write(notes)
        else:
            if not replacing:
                self._check_free(again=notes is not None)
            self.forget()
            notes = _Notes(outputs=self._names(), identity=self._identity, replacing=replacing)
            self._write(notes)
        self.round = notes.round

    @property
    def sent(self) -> SubmittedCrawl | None:
        """The crawl on a fleet that the last run submitted."""
        notes = self._read()
        return None if notes is None else notes.sent

    def send(self, sent: SubmittedCrawl) -> None:
        """Record the crawl that was, or is about to be, submitted to a fleet."""
        notes = self._read()
        assert notes is not None
        notes.sent = sent
        self._write(notes)

    def place(self, draft: Path, path: Path) -> None:
        """Move a complete file to its place; raises `ConfigError` when a file is there that this
        crawl does not know."""
        notes = self._read()
        assert notes is not None
        there = path.stat().st_size if path.exists() else 0
        if there and not notes.replacing and notes.sizes.get(str(path)) != there:
            raise _taken(path)
        _move(draft, path.resolve())
        notes.sizes[str(path)] = path.stat().st_size
        self._write(notes)

    @property
    def drafts(self) -> Path:
        """Folder for output that is not complete yet."""
        folder = self._folder / "drafts"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def check_known(self) -> None:
        """Raise `ConfigError` unless an earlier run of the same crawl has left its frontier."""
        notes = self._read()
        if notes is None or notes.identity != self._identity or not self.frontier.exists():
            raise ConfigError(
                f"there is no run of this crawl into {self.name} that could be asked; repeat "
                "its whole command, with --why"
            )

    def end(self, summary: Summary) -> Summary:
        """Move the output of a finished round to its place, save the summary, and return it with
        the present output. The frontier is kept for `--why` and `--revisit`, unless it is large."""
        if not summary.finished:
            return summary
        notes = self._read()
        assert notes is not None
        notes.summary, notes.replacing = summary, False
        if self.round > 1:
            notes.summary = self._renewed(summary)
            notes.publishing = True
            self._write(notes)
            self._publish(notes)
        else:
            notes.sizes = self._sizes()
            self._write(notes)
        if self.frontier.exists() and self.frontier.stat().st_size > KEPT_FRONTIER_BYTES:
            self.frontier.unlink()
        return notes.summary

    def clear(self) -> None:
        """Forget an earlier run, and remove the files that it wrote."""
        self.forget()
        for output in self._outputs:
            if output.path:
                output.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Forget an earlier run; the files that it wrote stay."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    # Rounds.

    @property
    def _changes(self) -> Path:
        return self._folder / f"round-{self.round}"

    def _changed(self, output: OutputFile) -> Path:
        """Return the file with the changes of this round to an output."""
        assert output.path is not None
        return self._changes / f"{self._outputs.index(output)}-{output.path.name}"

    def _whole(self, output: OutputFile) -> Path:
        """The output after this round, before it is put in its place."""
        changed = self._changed(output)
        return changed.with_name(f"whole-{changed.name}")

    def _check_revisit(self, notes: _Notes) -> None:
        if notes.identity != self._identity:
            raise ConfigError(
                f"{self.name} is from a crawl with other options; repeat its command with "
                "--revisit, name another file with -o, or begin anew with --fresh"
            )
        if not self.frontier.exists() or not self._index_of(notes.round).exists():
            raise ConfigError(
                f"what the last run learned of the pages for {self.name} was not kept (it is more "
                f"than {KEPT_FRONTIER_BYTES // 1_000_000} MB, or from another version); "
                "--fresh fetches all of them"
            )
        if (sizes := self._sizes()) != notes.sizes:
            wrong = [name for name in notes.sizes if sizes.get(name) != notes.sizes[name]]
            raise ConfigError(
                f"{', '.join(wrong)}: not as the last run left it, so that what has not changed "
                "cannot be kept; put it back, or begin anew with --fresh"
            )
        for output in self._outputs:
            if output.path and output.spec.format not in RENEWABLE:
                raise ConfigError(
                    f"{output.name} cannot be renewed; --revisit is for "
                    f"{', '.join(RENEWABLE)} and tables"
                )

    def _renewed(self, summary: Summary) -> Summary:
        """Write all files anew, and return the summary with their present sizes."""
        items = self._renew()
        output = dict(summary.output)
        for each in self._outputs:
            if each.path:
                output.pop(str(self._changed(each)), None)
                size = self._whole(each).stat().st_size
                output[each.name] = {"path": each.name, "items": items, "bytes": size}
        return msgspec.structs.replace(summary, items=items, output=output)

    def _renew(self) -> int:
        """Put all files together anew; how many items there are now."""
        before, since = self._index_of(self.round - 1), self.index
        for output in self._outputs:
            if output.path:
                renew(
                    Written(output.path, before),
                    Written(self._changed(output), since),
                    self._whole(output),
                    format=output.spec.format or "",
                    packing=output.spec.compress,
                )
        return renew_index(before, since, self._changes / "pages.idx")

    def _publish(self, notes: _Notes) -> None:
        """Move all files to their places; can be repeated after a crash."""
        self.round = notes.round
        for output in self._outputs:
            if output.path and (whole := self._whole(output)).exists():
                _move(whole, output.path.resolve())
        if (pages := self._changes / "pages.idx").exists():
            pages.replace(self.index)
        self._index_of(self.round - 1).unlink(missing_ok=True)
        notes.publishing, notes.sizes = False, self._sizes()
        self._write(notes)
        shutil.rmtree(self._changes, ignore_errors=True)

    def _index_of(self, round: int) -> Path:
        return self._folder / f"pages-{round}.idx"

    # Small steps.

    def _check_free(self, *, again: bool) -> None:
        for output in self._outputs:
            if again and not output.path:
                raise ConfigError(
                    f"{output.name} has the items of an earlier crawl from here; name another "
                    "table with -o, or replace them with --fresh"
                )
            if output.path and output.path.exists() and output.path.stat().st_size:
                raise _taken(output.path)

    def _names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self._outputs)

    def _sizes(self) -> dict[str, int]:
        files = (output.path for output in self._outputs if output.path)
        return {str(path): path.stat().st_size for path in files if path.exists()}

    def _write(self, notes: _Notes) -> None:
        write_private(self._path, msgspec.json.encode(notes))

    def _read(self) -> _Notes | None:
        try:
            notes = msgspec.json.decode(self._path.read_bytes(), type=_Notes)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._path} cannot be read ({error}); begin anew with --fresh"
            ) from error
        if notes.publishing:
            self._publish(notes)
        return notes


def identity_of(parameters: CrawlParameters) -> str:
    """Return the hash that identifies a crawl: of all parameters but politeness, fetching, workers
    and time limits."""
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


def _taken(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already, and not from this crawl; name another file with -o, or replace "
        "it with --fresh"
    )


def _move(file: Path, place: Path) -> None:
    """Move a file in one step, also from one disk to another."""
    try:
        file.replace(place)
    except OSError:
        draft = place.with_name(f".{place.name}.draft")
        shutil.copyfile(file, draft)
        with draft.open("rb") as copied:
            os.fsync(copied.fileno())
        draft.replace(place)
        file.unlink()
