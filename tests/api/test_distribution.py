"""Reports of devices over `/api/distribution`: an attempt that lost its task cannot end it."""

from typing import Any

import pytest

from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api distribution")]


class Device:
    """A device that does one kind of work."""

    def __init__(self, master: Master, name: str) -> None:
        self.name = name
        self._master = master
        who = {"device_id": name, "task_types": [name]}
        path = "/api/distribution/devices/register"
        self._key = master.post(path, who, status=201)["api_key"]

    def pull(self) -> Any:
        path = f"/api/distribution/tasks/pull?device_id={self.name}&wait=10"
        (task,) = self._master.get(path, key=self._key)["tasks"]
        return task

    def say(self, task: Any, expected: int = 200, **said: Any) -> Any:
        path = f"/api/distribution/tasks/{task['task_id']}/status"
        return self._master.call("PUT", path, said, key=self._key).expect(expected)


def test_the_first_attempt_needs_no_token(master: Master) -> None:
    device = Device(master, "untold_1")
    master.submit(task_type=device.name)
    task = device.pull()
    assert device.say(task, status="running")["status"] == "processing"
    assert device.say(task, status="completed")["status"] == "completed"
    assert device.say(task, status="completed")["status"] == "completed"


def test_a_later_attempt_is_not_ended_by_who_names_no_token(master: Master) -> None:
    device = Device(master, "untold_2")
    task_id = master.submit(task_type=device.name, max_retries=3)
    device.say(device.pull(), status="failed", token=1)
    second = device.pull()
    assert (second["task_id"], second["token"]) == (task_id, 2)

    for status in ("running", "completed", "failed"):
        refusal = device.say(second, 409, status=status)
        assert "send the `token` that came with the task" in refusal["detail"]

    assert device.say(second, status="completed", token=2)["status"] == "completed"
    device.say(second, 409, status="completed")
