"""/api/v1/session: sign-in of browsers, with a key or with a link that was made with one."""

from http import HTTPStatus
from typing import Final

import msgspec

from crawlfleet.api.examples import dashboard as examples
from crawlfleet.api.http.browser import cookie
from crawlfleet.api.http.parameters import invalid
from crawlfleet.api.http.routing import (
    ANYONE,
    NOT_KEPT,
    READERS,
    Call,
    Example,
    Reply,
    Route,
    Scope,
)
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.access.sign_ins import SignIns
from crawlfleet.control.access.tokens import csrf_token
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.views.access import SessionLink, SessionView, SignInRequest
from crawlfleet.views.fields import instant, moment


async def open_session(call: Call) -> Reply:
    body: SignInRequest = call.body
    if (body.key is None) is (body.link is None):
        raise invalid("key", "is needed, or else `link`", "send one of the two")
    async with call.sign_in(key=body.key, link=body.link) as known:
        caller, secret = await call.service(SignIns).open(known, link=body.link)
    lasts_s = (call.service(SignIns).expiry_of(caller) or 0.0) - call.service(ThisMaster).wall()
    return Reply(
        body=_view(call, caller),
        status=HTTPStatus.CREATED,
        headers={
            "Location": _PATH,
            "Set-Cookie": cookie(secret, lasts_s=lasts_s, secure=call.is_secure),
            **NOT_KEPT,
        },
    )


async def get_session(call: Call) -> Reply:
    return Reply(body=_view(call, call.caller), headers=NOT_KEPT)


async def close_session(call: Call) -> Reply:
    if call.caller.session_hash:
        await call.service(SignIns).close(call.caller)
    gone = cookie("", lasts_s=0.0, secure=call.is_secure)
    ended = msgspec.structs.replace(_view(call, call.caller), csrf="", expires_at=None)
    return Reply(body=ended, headers={"Set-Cookie": gone, **NOT_KEPT})


async def create_link(call: Call) -> Reply:
    link, token = await call.service(SignIns).make_link(call.caller)
    made = SessionLink(
        path=f"/open#{token}", token=token, expires_at=moment(link.expires_at or link.created_at)
    )
    return Reply(body=made, status=HTTPStatus.CREATED, headers=NOT_KEPT)


def _view(call: Call, caller: Principal) -> SessionView:
    return SessionView(
        name=caller.name,
        role=str(caller.role),
        projects=None if caller.project_id is None else (caller.project_id,),
        expires_at=instant(call.service(SignIns).expiry_of(caller)),
        csrf=csrf_token(caller.session_hash) if caller.session_hash else "",
    )


_PATH: Final = "/api/v1/session"

ROUTES: Final = (
    Route(
        name="open_session",
        method="POST",
        path=_PATH,
        roles=ANYONE,
        scope=Scope.PUBLIC,
        handler=open_session,
        no_command="for a browser; a command shows its key",
        summary="Sign a browser in",
        details="With a `key`, or with a `link`, which is good once; a wrong one counts like "
        "any [wrong key](../guides/security.md#wrong-keys). The answer sets a cookie that no "
        "script can read; `csrf` goes with each request that changes something. The session "
        "ends with its key, when that key gets another secret (after the old one's grace), and "
        "after `server.sign_in_hours`. Without `projects` all of them are there.",
        body=SignInRequest,
        response=SessionView,
        statuses=(HTTPStatus.CREATED,),
        signs_in=True,
        conflicts=True,
        example=Example(request=examples.SIGN_IN, response=examples.SESSION),
    ),
    Route(
        name="get_session",
        method="GET",
        path=_PATH,
        roles=READERS,
        scope=Scope.OWN,
        handler=get_session,
        client="session()",
        command="whoami",
        summary="Who asks, and as what",
        details="Of a session, or of a key, which has no `csrf`. A 401 when it is over.",
        response=SessionView,
    ),
    Route(
        name="close_session",
        method="DELETE",
        path=_PATH,
        roles=READERS,
        scope=Scope.OWN,
        handler=close_session,
        no_command="for a browser; `keys revoke` ends all sessions of a key",
        summary="Sign out",
        details="Ends this session, and takes the cookie away. Other sessions of the key go on.",
        response=SessionView,
        conflicts=True,
    ),
    Route(
        name="create_session_link",
        method="POST",
        path=f"{_PATH}:link",
        roles=READERS,
        scope=Scope.OWN,
        handler=create_link,
        client="create_session_link()",
        command="open",
        summary="Make a link that signs a browser in",
        details="Good once, for 10 minutes, as the caller. Put the address of a master before "
        "`path`. The part behind the `#` is sent to no server but by the page itself.",
        response=SessionLink,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(response=examples.SESSION_LINK),
    ),
)
