"""A node acts on its own leases alone, whatever it names in its messages; a revoked one on none.

Who may call which route is tried in `test_roles`. Here a node calls its own routes and names what
belongs to another.
"""

from typing import Any, NamedTuple

import pytest

from tests.api.plain_http import Master, Node

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api other nodes")]


class Scene(NamedTuple):
    owner: Node
    thief: Node
    work: Any
    task_id: str


@pytest.fixture
def scene(master: Master, request: pytest.FixtureRequest) -> Scene:
    kind = f"own_{abs(hash(request.node.name))}"
    owner, thief = master.node(task_types=[kind]), master.node(task_types=["nothing"])
    task_id = master.submit(task_type=kind)
    work = owner.take()
    assert owner.report(work, "started") == "recorded"
    return Scene(owner, thief, work, task_id)


def still_owned(scene: Scene) -> None:
    """Nothing has happened to the work, and its owner can finish it."""
    master = scene.owner.master
    assert master.get(f"/api/v1/tasks/{scene.task_id}")["status"] == "processing"
    assert scene.owner.beat(active_tasks=[scene.task_id]).get("lost_tasks") is None
    assert scene.owner.report(scene.work, "succeeded") == "recorded"


@pytest.mark.parametrize("kind", ["started", "succeeded", "failed", "stopped", "released"])
@pytest.mark.parametrize("session", ["its own", "the owner's"])
def test_reports_about_the_work_of_another_are_stale(scene: Scene, kind: str, session: str) -> None:
    if session == "the owner's":
        scene.thief.session = scene.owner.session
    assert scene.thief.report(scene.work, kind) == "stale"
    still_owned(scene)


def test_the_session_of_another_gives_no_leases(scene: Scene) -> None:
    scene.thief.session = scene.owner.session
    assert scene.thief.lease(wait_s=0.1) == {"session_lost": True}
    still_owned(scene)


def test_the_session_of_another_is_not_renewed(scene: Scene) -> None:
    scene.thief.session = scene.owner.session
    reply = scene.thief.beat(active_tasks=[scene.task_id])
    assert reply["session_lost"] is True
    assert reply["lost_tasks"] == [scene.task_id]
    still_owned(scene)


def test_the_log_of_another_is_not_written(scene: Scene) -> None:
    note = {
        "execution_id": scene.work["execution_id"],
        "lines": [{"seq": 1, "at": 1.0, "message": "forged"}],
        "progress": {"done": 99.0},
    }
    for session in (scene.thief.session, scene.owner.session):
        reply = scene.thief.say("note", {"session_id": session, "notes": [note]}).expect(200)
        assert reply["stale"] == [scene.work["execution_id"]]
    logs = scene.owner.master.get(f"/api/v1/executions/{scene.work['execution_id']}/logs")
    assert logs["items"] == []
    still_owned(scene)


def test_another_cannot_be_made_to_leave(scene: Scene) -> None:
    said = {"session_id": scene.owner.session}
    scene.thief.say("unregister", said).expect(200)
    assert scene.owner.view()["status"] == "online"
    still_owned(scene)


def test_nobody_registers_under_the_id_of_another(scene: Scene) -> None:
    body = {"name": "thief", "node_id": scene.owner.id}
    master = scene.owner.master
    master.call("POST", "/api/v1/nodes:register", body, key=scene.thief.token).expect(403)
    _, join = master.join_token()
    master.call("POST", "/api/v1/nodes:register", body, key=join).expect(403)
    still_owned(scene)


def test_the_token_of_another_is_not_renewed(scene: Scene) -> None:
    path = f"{scene.owner.path}:renew-token"
    scene.owner.master.call("POST", path, {}, key=scene.thief.token).expect(403)
    still_owned(scene)


@pytest.mark.parametrize("verb", ["heartbeat", "lease", "report", "note", "renew-token"])
def test_a_revoked_node_is_nobody_from_that_moment_on(scene: Scene, verb: str) -> None:
    owner = scene.owner
    owner.master.post(f"{owner.path}:revoke")
    report = {name: scene.work[name] for name in ("execution_id", "task_id", "token")}
    bodies: dict[str, Any] = {
        "heartbeat": {"session_id": owner.session},
        "lease": {"session_id": owner.session},
        "report": {
            "session_id": owner.session,
            "reports": [{**report, "kind": "succeeded", "at": 1.0}],
        },
        "note": {"session_id": owner.session, "notes": []},
        "renew-token": {},
    }
    owner.say(verb, bodies[verb]).expect(401)
    owner.master.call(
        "POST",
        "/api/v1/nodes:register",
        {"name": "back", "node_id": owner.id},
        key=owner.token,
    ).expect(401)
    # Its work is free for others at once.
    assert owner.master.get(f"/api/v1/tasks/{scene.task_id}")["status"] == "pending"
