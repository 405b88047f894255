"""Validation of bundle requests, and the changes that they make.

A bundle and its versions are one row, so that the present version and the list cannot disagree,
and of two changes of one version only one is made.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.core.bundles.archives import Contents
from crawlfleet.core.text.names import NAME
from crawlfleet.errors import FieldProblem
from crawlfleet.model.bundle import Bundle, BundleRef, BundleVersion, bundle_id
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event

_NOTE: Final = re.compile(r"[^\x00]{0,500}\Z")
WANTED: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@(?P<number>[0-9]{1,18}))?\Z"
)
USERS: Final = ("scrapy_spider", "python", "command")
"""The task types that run code of bundles."""


def text_problems(name: str, note: str) -> Iterator[FieldProblem]:
    """Yield the problems of the name and the note in a request."""
    if not NAME.match(name):
        yield FieldProblem(
            field="name",
            value=name[:80],
            message="is not a valid name",
            remedy="use letters, digits, dot, dash and underscore, at most 64, beginning with a "
            "letter or digit",
        )
    if not _NOTE.match(note):
        yield FieldProblem(
            field="note", message="is too long", remedy="use at most 500 characters, and no NUL"
        )


def wanted_problem(task_type: str, wanted: str | None) -> FieldProblem | None:
    """Return the problem of a task's `bundle` field as far as the request alone shows; `None` if it
    is fine."""
    if wanted is None:
        if task_type != "scrapy_spider":
            return None
        return _wanted(
            "is missing", "name the bundle with the Scrapy project, such as `quotes`", ""
        )
    if task_type not in USERS:
        return _wanted("is nothing for this task type", f"leave it out; {_users()}", wanted)
    if not WANTED.match(wanted):
        return _wanted(
            "is no bundle", "use its name, and if need be a version: `quotes` or `quotes@3`", wanted
        )
    return None


def pinned(bundle: Bundle | None, wanted: str) -> BundleRef | FieldProblem:
    """Return the version that a task gets which names `wanted`, or the problem. `bundle` is the
    bundle of that name, `None` if there is none."""
    found = WANTED.match(wanted)
    assert found is not None, "judged before"
    if bundle is None or not bundle.versions:
        return _wanted(
            "is no bundle of the project", "hand it over first (`crawlfleet deploy`)", wanted
        )
    number = int(found["number"]) if found["number"] else bundle.current
    version = bundle.numbered(number)
    if version is None:
        kept = ", ".join(str(each.number) for each in bundle.versions[:10])
        return _wanted("has no such version (any more)", f"use one of {kept}", wanted)
    return BundleRef(name=bundle.name, number=number, digest=version.digest)


def deployed(
    bundle: Bundle | None,
    *,
    project_id: str,
    name: str,
    digest: str,
    size: int,
    contents: Contents,
    note: str,
    now: float,
    cause: str,
) -> Change | None:
    """Return the change that deploys an archive; `None` when it is the present version already. An
    archive that was deployed before becomes the present version again, under its old number."""
    before = bundle or Bundle(
        id=bundle_id(project_id, name),
        project_id=project_id,
        name=name,
        created_at=now,
        updated_at=now,
        version=0,
    )
    same = next((each for each in before.versions if each.digest == digest), None)
    if same is not None:
        return moved(before, same.number, now=now, cause=cause)
    number = before.last + 1
    version = BundleVersion(
        number=number,
        digest=digest,
        bytes=size,
        files=contents.files,
        unpacked_bytes=contents.unpacked_bytes,
        kind=contents.kind,
        created_at=now,
        cause=cause,
        note=note,
        spiders=contents.spiders,
    )
    changed = msgspec.structs.replace(
        before, current=number, last=number, versions=(version, *before.versions)
    )
    return _change(changed, "bundle.deployed", number, now, cause)


def moved(bundle: Bundle, number: int, *, now: float, cause: str) -> Change | None:
    """Return the change that makes another version the present one; `None` when it is that
    already."""
    if bundle.current == number:
        return None
    changed = msgspec.structs.replace(bundle, current=number)
    return _change(changed, "bundle.rolled_back", number, now, cause)


def removed(bundle: Bundle, number: int | None, *, now: float, cause: str) -> Change | None:
    """Return the change that removes a version, or all versions; `None` when none is left to
    remove."""
    kept = tuple(each for each in bundle.versions if number is not None and each.number != number)
    if kept == bundle.versions:
        return None
    current = bundle.current if any(each.number == bundle.current for each in kept) else 0
    changed = msgspec.structs.replace(bundle, versions=kept, current=current)
    return _change(changed, "bundle.removed", number, now, cause)


def before_present(bundle: Bundle) -> int | None:
    """The newest version that is older than the present one."""
    older = [each.number for each in bundle.versions if each.number < bundle.current]
    return max(older, default=None)


def _change(bundle: Bundle, kind: str, number: int | None, now: float, cause: str) -> Change:
    changed = msgspec.structs.replace(bundle, updated_at=now, version=bundle.version + 1)
    event = Event(
        kind=kind,
        subject=bundle.id,
        at=now,
        cause=cause,
        details={} if number is None else {"version": number},
        project_id=bundle.project_id,
    )
    return Change(rows=(changed,), events=(event,))


def _wanted(message: str, remedy: str, value: str) -> FieldProblem:
    return FieldProblem(field="bundle", message=message, remedy=remedy, value=value[:80] or None)


def _users() -> str:
    return f"only {', '.join(USERS[:-1])} and {USERS[-1]} run code of bundles"
