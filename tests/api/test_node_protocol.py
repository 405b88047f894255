"""The node protocol stays what it is: a recorded exchange of a node with its master is replayed.

`recordings/node-protocol.json` has names in place of ids. A test that fails here has noticed a
change of the protocol: a field that was renamed or taken away, a new one that is required, an
answer that lacks what a node reads.
"""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import Route
from crawlfleet.client.node_link import HttpControlLink
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.key import Role
from crawlfleet.model.wire.node_protocol import PROTOCOL, Registration
from crawlfleet.model.wire.services import SERVICES
from tests.api.plain_http import Master

RECORDING = Path(__file__).parent / "recordings" / "node-protocol.json"
NAME = re.compile(r"{(\w+)}")


def exchanges() -> list[dict[str, Any]]:
    document = json.loads(RECORDING.read_text())
    assert document["protocol"] == PROTOCOL
    found: list[dict[str, Any]] = document["exchanges"]
    return found


def said_by_nodes() -> list[Any]:
    return [pytest.param(each, id=each["name"]) for each in exchanges() if each["who"] != "admin"]


def route_of(exchange: dict[str, Any]) -> Route:
    path = re.sub(r"/services/\w+$", "/services/{service}", exchange["path"])
    return next(each for each in ROUTES if (each.method, each.path) == ("POST", path))


def unknown_fields(value: Any, kind: inspect.Type, at: str = "") -> list[str]:
    """Fields of a recorded message that today's struct does not have."""
    match kind:
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            known = {field.encode_name: field.type for field in fields}
            return [
                each
                for name, inner in value.items()
                for each in (
                    unknown_fields(inner, known[name], f"{at}.{name}")
                    if name in known
                    else [f"{at}.{name}"]
                )
            ]
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [
                each
                for number, inner in enumerate(value)
                for each in unknown_fields(inner, item, f"{at}[{number}]")
            ]
        case inspect.UnionType(types=kinds):
            return [each for one in kinds for each in unknown_fields(value, one, at)]
    return []


def test_the_recording_says_every_message_and_every_field_that_nodes_send() -> None:
    """Else a change to what is not recorded would go unnoticed."""
    paths = {each["path"] for each in exchanges()}
    spoken = {path.rpartition(":")[2] for path in paths if "/services/" not in path}
    verbs = set(re.findall(r'_send\(\s*node_id, "([\w-]+)"', Path(_source()).read_text()))
    said = {"heartbeat", "lease", "report", "note", "drain", "unregister", "renew-token"}
    assert said == verbs
    assert spoken >= verbs | {"register"}
    assert {path.rpartition("/")[2] for path in paths if "/services/" in path} == {*SERVICES}
    sent = {
        name
        for each in exchanges()
        if each["name"] in {"register", "register again"}
        for name in each["request"]
    }
    assert sent == set(Registration.__struct_fields__)


def _source() -> str:
    import inspect as python

    return str(python.getsourcefile(HttpControlLink))


@pytest.mark.parametrize("exchange", said_by_nodes())
def test_what_nodes_said_is_understood(exchange: dict[str, Any]) -> None:
    route = route_of(exchange)
    content = json.dumps(exchange["request"]).encode()
    msgspec.json.decode(content, type=route.body)
    assert unknown_fields(exchange["request"], inspect.type_info(route.body)) == []


@pytest.mark.parametrize("exchange", said_by_nodes())
def test_what_masters_answered_is_understood(exchange: dict[str, Any]) -> None:
    route = route_of(exchange)
    msgspec.json.decode(json.dumps(exchange["reply"]).encode(), type=route.response)
    assert unknown_fields(exchange["reply"], inspect.type_info(route.response)) == []


def test_a_node_of_another_version_is_refused() -> None:
    from crawlfleet.core.nodes.registration import registration_problems

    for version in (PROTOCOL - 1, PROTOCOL + 1):
        wanted = Registration(name="other", protocol=version)
        (problem,) = registration_problems(wanted, {"default"})
        assert problem.field == "protocol"
        assert "the same crawlfleet" in problem.remedy
        assert "protocol" in str(InvalidRequest([problem]))


class Replay:
    """Says again what was recorded, with the ids of this time."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self._ids: dict[str, str] = {}

    def say(self, exchange: dict[str, Any]) -> None:
        keys = {
            "admin": self._master.keys[Role.ADMIN],
            "join": self._master.keys[Role.NODE],
            "node": self._ids.get("node_token", ""),
        }
        answer = self._master.call(
            "POST",
            self._filled(exchange["path"]),
            self._filled(exchange["request"]),
            key=keys[exchange["who"]],
        )
        assert answer.status == exchange["status"], (exchange["name"], answer.content)
        if exchange["who"] == "admin":
            if "id" in answer.json:
                self._ids["task_id"] = answer.json["id"]
        else:
            self._compare(exchange["reply"], answer.json, exchange["name"])

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return NAME.sub(lambda found: self._ids.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {name: self._filled(each) for name, each in value.items()}
        return [self._filled(each) for each in value] if isinstance(value, list) else value

    def _compare(self, recorded: Any, now: Any, at: str) -> None:
        """Everything that was there is there, and of the same kind."""
        if isinstance(recorded, dict):
            assert isinstance(now, dict), at
            for name, value in recorded.items():
                assert name in now, f"{at}.{name} is missing"
                self._compare(value, now[name], f"{at}.{name}")
        elif isinstance(recorded, list):
            assert len(now) == len(recorded), at
            for number, (old, new) in enumerate(zip(recorded, now, strict=True)):
                self._compare(old, new, f"{at}[{number}]")
                if at.endswith((".outcomes", ".lost_tasks")):
                    assert old == new, at
        elif isinstance(recorded, str) and (named := NAME.fullmatch(recorded)):
            assert isinstance(now, str), at
            self._ids[named[1]] = now
        else:
            kinds = (int, float) if isinstance(recorded, int | float) else type(recorded)
            assert isinstance(now, kinds), at
            assert isinstance(now, bool) == isinstance(recorded, bool), at


@pytest.mark.slow
@pytest.mark.xdist_group("node protocol")
def test_a_recorded_node_lives_its_whole_life_with_the_master(master: Master) -> None:
    replay = Replay(master)
    for exchange in exchanges():
        replay.say(exchange)


def test_a_renamed_field_would_be_noticed() -> None:
    class Renamed(msgspec.Struct):
        session: str
        held: tuple[str, ...] = ()

    recorded = {"session_id": "s", "held": []}
    assert unknown_fields(recorded, inspect.type_info(Renamed)) == [".session_id"]
