"""/api/v1/projects/{project_id}/secrets: secrets for code; their values cannot be read."""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.http.etags import wanted_version
from crawlfleet.api.http.parameters import PageQuery, check_id, check_name_cursor
from crawlfleet.api.http.routing import (
    OPERATORS,
    READERS,
    Call,
    Example,
    Reply,
    Route,
    Scope,
)
from crawlfleet.features.secrets.service import Secrets
from crawlfleet.features.secrets.views import SecretPage, SecretView
from crawlfleet.model.secret import SecretRequest

_EXAMPLE: Final = {
    "name": "SHOP_PASSWORD",
    "project_id": "shop",
    "created_at": "2026-11-15T09:29:00.120000Z",
    "updated_at": "2026-11-15T09:40:10.450000Z",
    "cause": "set by ann",
    "version": 2,
}


async def find(call: Call) -> SecretPage:
    query: PageQuery = call.query
    after = check_name_cursor(query.cursor)
    found = await call.service(Secrets).page(_project(call), after=after, limit=query.limit + 1)
    page = found[: query.limit]
    return SecretPage(
        items=[SecretView.of(each) for each in page],
        next_cursor=page[-1].name if len(found) > len(page) else None,
    )


async def keep(call: Call) -> Reply:
    secret = await call.service(Secrets).keep(_project(call), call.body, by=call.caller.name)
    is_new = secret.created_at == secret.updated_at
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return Reply(body=SecretView.of(secret), status=status)


async def remove(call: Call) -> SecretView:
    name = check_id("secret", call.path["secret_id"])
    return SecretView.of(
        await call.service(Secrets).remove(
            _project(call), name, by=call.caller.name, if_version=wanted_version(call)
        )
    )


def _project(call: Call) -> str:
    return check_id("project", call.path["project_id"])


_SECRETS: Final = "/api/v1/projects/{project_id}/secrets"

ROUTES: Final = (
    Route(
        name="list_secrets",
        method="GET",
        path=_SECRETS,
        roles=READERS,
        scope=Scope.PATH,
        handler=find,
        client="secrets(project_id)",
        command="secrets list",
        summary="List the secrets of a project, in order of name",
        details="Never their values: those are shown to nobody.",
        query=PageQuery,
        response=SecretPage,
        example=Example(response={"items": [_EXAMPLE], "next_cursor": None}),
    ),
    Route(
        name="set_secret",
        method="POST",
        path=_SECRETS,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=keep,
        client='set_secret(secret_id, "correct horse", project_id)',
        command="secrets set",
        summary="Set a secret, in place of the value that it had",
        details="`name`: capitals, digits and underscores, 64 at most; `value`: 8 to 32,000 "
        "characters. The value is sealed before it is stored, and is not shown again; the audit "
        "log has the name alone. Tasks get the value that it has when an attempt of theirs "
        "begins. Answers 201, or 200 when there was a value before.",
        body=SecretRequest,
        response=SecretView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(
            request={"name": "SHOP_PASSWORD", "value": "correct horse battery staple"},
            response=_EXAMPLE,
        ),
    ),
    Route(
        name="remove_secret",
        method="POST",
        path=f"{_SECRETS}/{{secret_id}}:remove",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=remove,
        client="remove_secret(secret_id, project_id)",
        command="secrets delete",
        summary="Forget a secret",
        details="`secret_id` is its name. What declares it and begins afterwards fails, and "
        "says so. The answer is that of setting it.",
        response=SecretView,
        conflicts=True,
        example=Example(response=_EXAMPLE),
    ),
)
