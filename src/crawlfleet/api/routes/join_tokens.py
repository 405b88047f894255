"""/api/v1/join-tokens"""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import ADMINS, NOT_KEPT, Call, Example, Reply, Route, Scope
from crawlfleet.control.access.keys import Keys
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.model.key import ApiKey
from crawlfleet.model.requests import JoinTokenRequest
from crawlfleet.tls import pin_of, with_pin
from crawlfleet.views.access import JoinTokenPage, JoinTokenView, NewJoinToken


async def find(call: Call) -> JoinTokenPage:
    tokens = call.service(Keys).find(joining=True)
    return JoinTokenPage(items=[_view(call, token) for token in tokens], next_cursor=None)


async def create(call: Call) -> Reply:
    token, secret = await call.service(Keys).create_join_token(call.body, by=call.caller.name)
    cert = call.service(ThisMaster).settings.server.tls_cert
    join = with_pin(secret, pin_of(cert) if cert else "")
    return Reply(
        body=NewJoinToken(join_token=_view(call, token), secret=secret, join=join),
        status=HTTPStatus.CREATED,
        headers=NOT_KEPT,
    )


async def get(call: Call) -> JoinTokenView:
    id = check_id("join-token", call.path["join_token_id"])
    return _view(call, call.service(Keys).get(id, joining=True))


async def revoke(call: Call) -> JoinTokenView:
    id = check_id("join-token", call.path["join_token_id"])
    by = call.caller.name
    return _view(call, await call.service(Keys).revoke(id, joining=True, by=by))


def _view(call: Call, token: ApiKey) -> JoinTokenView:
    return JoinTokenView.of(token, now=call.service(ThisMaster).wall())


ROUTES: Final = (
    Route(
        name="list_join_tokens",
        method="GET",
        path="/api/v1/join-tokens",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=find,
        client="join_tokens()",
        command="join-tokens list",
        summary="List join tokens, oldest first",
        details="Also those that are dead; never their secrets.",
        response=JoinTokenPage,
    ),
    Route(
        name="create_join_token",
        method="POST",
        path="/api/v1/join-tokens",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=create,
        client="create_join_token(uses=2)",
        command="join-tokens create",
        summary="Make a token with which new nodes may join",
        details="The `secret` is in this answer and nowhere else. A use is counted with the "
        "registration of a new node, in the same commit; a node that returns needs none. `join` "
        "is what a worker is started with (`--join`): the secret and, of a master with TLS, the "
        "fingerprint of its public key. A worker that was given one talks to nobody who has "
        "another key.",
        body=JoinTokenRequest,
        response=NewJoinToken,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(request=tasks.JOIN_TOKEN_REQUEST, response=tasks.NEW_JOIN_TOKEN),
    ),
    Route(
        name="get_join_token",
        method="GET",
        path="/api/v1/join-tokens/{join_token_id}",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=get,
        client="join_token(join_token_id)",
        no_command="`join-tokens list` shows all that there is to one",
        summary="One join token",
        details="Never its secret; `uses` counts the nodes that have joined with it.",
        response=JoinTokenView,
    ),
    Route(
        name="revoke_join_token",
        method="POST",
        path="/api/v1/join-tokens/{join_token_id}:revoke",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=revoke,
        client="revoke_join_token(join_token_id)",
        command="join-tokens revoke",
        summary="Let no more nodes join with a token",
        details="Nodes that have joined with it stay.",
        response=JoinTokenView,
        conflicts=True,
    ),
)
