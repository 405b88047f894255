"""What `crawlfleet crawl` keeps between its runs, apart from the output: one folder a crawl.

It lies with the user's other program state, not beside the output, so that a finished crawl leaves
exactly what was named. Which folder follows from where the output goes.

A later round (`--revisit`) writes what has changed into the folder, too. Only when it has finished
are the files put together anew and each put in its place in one step, so that whoever reads one
has a whole one, of this round or of the one before.
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
"""Of a finished crawl."""
MANNERS: Final = ("connect_s", "first_byte_s", "idle_s", "total_s", "max_seconds")
"""Limits that change how a crawl goes, not what it is."""


class SubmittedCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl that was handed to a fleet."""

    key: str
    """With which it was submitted: to submit it again makes no second one."""
    task_id: str = ""
    """Once the fleet has answered."""


class _Notes(msgspec.Struct, kw_only=True):
    """What is written down about a crawl."""

    outputs: tuple[str, ...]
    identity: str
    round: int = 1
    summary: Summary | None = None
    """Once the round has finished."""
    publishing: bool = False
    """Whether its files are being put in their places."""
    sizes: dict[str, int] = {}
    """Of the files, as the last finished round left them."""
    sent: SubmittedCrawl | None = None
    """Where it runs on a fleet."""
    replacing: bool = False
    """Whether files that were there before may be replaced."""


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
        """The outputs, for people."""
        return ", ".join(output.name for output in self._outputs)

    @property
    def index(self) -> Path:
        """Where this round notes which page each item is from."""
        return self._folder / f"pages-{self.round}.idx"

    def sinks(self) -> tuple[SinkSpec, ...]:
        """Where this round writes to."""
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
        """Only one process crawls into a place."""
        busy = f"a crawl into {self.name} is running already; wait for it, or stop it"
        with hold(self._folder.with_name(f"{self._folder.name}.lock"), busy=busy):
            yield

    def finished(self) -> Summary | None:
        """How the same crawl ended, if it did and its output is still there as it was."""
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
        """The crawl of a fleet that is waited for, or was the last time."""
        notes = self._read()
        return None if notes is None else notes.sent

    def send(self, sent: SubmittedCrawl) -> None:
        """Write down what was, or is about to be, handed to a fleet."""
        notes = self._read()
        assert notes is not None
        notes.sent = sent
        self._write(notes)

    def place(self, draft: Path, path: Path) -> None:
        """Put a whole file in its place; raises `ConfigError` when another one is there that this
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
        """Where output is put together before it is put in its place."""
        folder = self._folder / "drafts"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def check_known(self) -> None:
        """Raise `ConfigError` unless there was a run of the same crawl that can still be asked."""
        notes = self._read()
        if notes is None or notes.identity != self._identity or not self.frontier.exists():
            raise ConfigError(
                f"there is no run of this crawl into {self.name} that could be asked; repeat "
                "its whole command, with --why"
            )

    def end(self, summary: Summary) -> Summary:
        """Put the output of a round that has finished in its place, and remember how it ended,
        for --why and --revisit where each URL ended unless that is much; the summary with what
        there is now."""
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
        """Forget an earlier run; what it wrote stays."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    # Rounds.

    @property
    def _changes(self) -> Path:
        return self._folder / f"round-{self.round}"

    def _changed(self, output: OutputFile) -> Path:
        """What this round has found of an output."""
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
        """Put all files together anew; the summary with what there is then."""
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
        """Put everything in its place; may be begun again after a crash."""
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


def _taken(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already, and not from this crawl; name another file with -o, or replace "
        "it with --fresh"
    )


def _move(file: Path, place: Path) -> None:
    """In one step, also from one disk to another."""
    try:
        file.replace(place)
    except OSError:
        draft = place.with_name(f".{place.name}.draft")
        shutil.copyfile(file, draft)
        with draft.open("rb") as copied:
            os.fsync(copied.fileno())
        draft.replace(place)
        file.unlink()
