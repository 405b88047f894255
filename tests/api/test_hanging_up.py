"""A node that dies is missed soon, whatever it said last; one that only hangs up is not.

Sessions time out after ten minutes here: nobody is missed for silence.
"""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.api.plain_http import Master, Node, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api hanging up")]

RECONNECT_S: Final = 1.0
MISSED_WITHIN_S: Final = 10.0
MOMENT_S: Final = 0.05
"""Until the master has seen what was sent or closed before."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with started(
        tmp_path_factory.mktemp("hanging-up") / "fleet",
        CRAWLFLEET_SESSION_RECONNECT_S=str(RECONNECT_S),
    ) as running:
        yield running


class Line:
    """A connection of a node, on which it says one thing after the other."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._peer = socket.create_connection(("127.0.0.1", node.master.fleet.port), timeout=30)

    def say(self, verb: str, header: str = "", **body: Any) -> None:
        """Send a request; returns at once."""
        content = json.dumps({"session_id": self._node.session, **body}).encode()
        head = (
            f"POST {self._node.path}:{verb} HTTP/1.1\r\nHost: x\r\n{header}"
            f"Authorization: Bearer {self._node.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._peer.sendall(head.encode() + content)

    def answer(self) -> Any:
        """The answer to what was said last."""
        response = http.client.HTTPResponse(self._peer)
        response.begin()
        content = response.read()
        assert response.status == 200, content
        return json.loads(content)

    def poll(self, wait_s: float = 20.0, **body: Any) -> None:
        self.say("lease", wait_s=wait_s, keeps_connection=True, **body)

    def hang_up(self) -> None:
        self._peer.close()


def comes_true(is_so: Callable[[], bool], within_s: float = MISSED_WITHIN_S) -> bool:
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def is_missed(node: Node, within_s: float = MISSED_WITHIN_S) -> bool:
    return comes_true(lambda: node.view()["status"] != "online", within_s)


def is_left_alone(node: Node) -> bool:
    return not is_missed(node, 2.5 * RECONNECT_S)


def test_a_node_that_dies_while_it_waits_is_missed(master: Master) -> None:
    node = master.node(task_types=["none"])
    line = Line(node)
    line.poll()
    time.sleep(MOMENT_S)
    line.hang_up()
    assert is_missed(node)


def test_a_node_that_dies_between_two_polls_is_missed(master: Master) -> None:
    node = master.node(task_types=["between"])
    polling, beating = Line(node), Line(node)
    beating.say("heartbeat")
    beating.answer()
    task = master.submit(task_type="between")
    polling.poll()
    assert [each["task_id"] for each in polling.answer()["assignments"]] == [task]
    polling.hang_up()
    time.sleep(MOMENT_S)
    beating.hang_up()
    assert is_missed(node)
    # Its work is given back by a second commit.
    assert comes_true(lambda: master.task(task)["status"] == "pending")


def _report(line: Line) -> None:
    line.say("report", reports=[])


def _beat(line: Line) -> None:
    line.say("heartbeat")


def _note(line: Line) -> None:
    line.say("note", notes=[])


def _poll(line: Line) -> None:
    line.poll()


@pytest.mark.parametrize("say_last", [_report, _beat, _note, _poll])
@pytest.mark.parametrize("heard_s", [0.0, 2 * MOMENT_S])
def test_the_last_words_of_a_dead_node_change_nothing(
    master: Master, say_last: Callable[[Line], None], heard_s: float
) -> None:
    """They come on another connection than that on which it waited, and are heard after it is
    missed there."""
    node = master.node(task_types=["none"])
    polling, other = Line(node), Line(node)
    polling.poll()
    time.sleep(MOMENT_S)
    polling.hang_up()
    time.sleep(MOMENT_S)
    say_last(other)
    time.sleep(heard_s)
    other.hang_up()
    assert is_missed(node)


def test_a_heartbeat_that_was_under_way_saves_no_dead_node(master: Master) -> None:
    node = master.node(task_types=["none"])
    polling, beating = Line(node), Line(node)
    polling.poll()
    time.sleep(MOMENT_S)
    # Heartbeats wait for others to share a commit with: it is recorded after both are lost.
    beating.say("heartbeat", number=1)
    time.sleep(MOMENT_S)
    polling.hang_up()
    beating.hang_up()
    assert is_missed(node)


def test_a_node_that_is_heard_again_is_left_alone(master: Master) -> None:
    node = master.node(task_types=["none"])
    first, second = Line(node), Line(node)
    first.poll()
    time.sleep(MOMENT_S)
    first.hang_up()
    time.sleep(MOMENT_S)
    second.say("heartbeat")
    second.answer()
    assert is_left_alone(node)


def test_a_node_that_waits_elsewhere_may_close_its_other_connections(master: Master) -> None:
    node = master.node(task_types=["none"])
    polling = Line(node)
    polling.poll()
    for _ in range(3):
        other = Line(node)
        _beat(other)
        other.answer()
        other.hang_up()
    assert is_left_alone(node)


def test_a_node_that_says_nothing_of_its_connections_may_close_them_all(master: Master) -> None:
    node = master.node(task_types=["script"])
    line = Line(node)
    master.submit(task_type="script")
    line.say("lease", wait_s=20.0)
    assert line.answer()["assignments"]
    line.hang_up()
    assert is_left_alone(node)


def test_a_node_that_polls_on_one_connection_after_the_other_is_left_alone(master: Master) -> None:
    """As behind a proxy that opens one for each request."""
    node = master.node(task_types=["none"])
    until = time.monotonic() + 3 * RECONNECT_S
    while time.monotonic() < until:
        line = Line(node)
        line.poll(wait_s=0.2)
        line.answer()
        line.hang_up()
        time.sleep(2 * MOMENT_S)
    assert node.view()["status"] == "online"
    assert is_missed(node)


def test_connections_that_the_master_closes_tell_nothing(master: Master) -> None:
    node = master.node(task_types=["none"])
    for verb, body in [("heartbeat", {}), ("lease", {"wait_s": 0.1, "keeps_connection": True})] * 3:
        line = Line(node)
        line.say(verb, "Connection: close\r\n", **body)
        line.answer()
        time.sleep(MOMENT_S)
        line.hang_up()
    assert is_left_alone(node)


def test_connections_that_were_idle_for_long_tell_nothing(master: Master) -> None:
    node = master.node(task_types=["none"])
    line = Line(node)
    line.poll(wait_s=0.1)
    line.answer()
    assert not is_missed(node, 5.0 + 2.5 * RECONNECT_S)  # the master closes it after 5 s
    line.hang_up()
    assert is_left_alone(node)


def test_a_node_that_has_not_polled_for_long_may_close_its_connections(master: Master) -> None:
    node = master.node(task_types=["none"])
    line = Line(node)
    line.poll(wait_s=0.1)
    line.answer()
    for _ in range(3):
        time.sleep(2.0)
        _beat(line)
        line.answer()
    line.hang_up()
    assert is_left_alone(node)


def test_a_connection_that_nodes_share_is_the_last_ones(master: Master) -> None:
    """As behind a proxy; the lines of both are the same here."""
    first, second = master.node(task_types=["none"]), master.node(task_types=["none"])
    shared, waiting = Line(first), Line(second)
    shared.poll(wait_s=0.1)
    shared.answer()
    shared._node = second
    _beat(shared)
    shared.answer()
    waiting.poll()
    time.sleep(MOMENT_S)
    shared.hang_up()
    assert is_left_alone(first)
    assert is_left_alone(second)
