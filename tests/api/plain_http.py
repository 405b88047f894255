"""A real master, spoken to in plain HTTP: nothing of our own client is in between."""

import asyncio
import base64
import copy
import http.client
import io
import json
import secrets
import socket
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from crawlfleet.compose.by_url import open_store
from crawlfleet.compose.master import control_plane
from crawlfleet.model.key import Role
from crawlfleet.model.settings import Settings
from tests.support.local_fleet import LocalFleet, running

ADMIN: Final = "(the admin's key)"
ANSWER_WITHIN_S: Final = 30.0
KEPT_ALIVE_S: Final = 2.0
"""The master closes a connection that was idle for 5 s."""
MAX_BODY_MB: Final = 4.0
TABLES: Final = (
    "projects",
    "crawler_tasks",
    "crawler_nodes",
    "crawler_node_sessions",
    "crawler_task_executions",
    "crawler_events",
    "crawler_bundles",
    "crawler_secrets",
    "crawler_claims",
    "crawler_keys",
    "crawler_execution_logs",
)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    def expect(self, status: int) -> Any:
        """The JSON of an answer that must have this status."""
        assert self.status == status, (self.status, self.content[:1000])
        return self.json


class Master:
    """A master process without workers, with a key for every role."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.fleet = LocalFleet(
            folder,
            workers=0,
            **{
                # Nodes of these tests beat when a test says so, and not else.
                "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "60",
                "CRAWLFLEET_SESSION_TIMEOUT_S": "600",
                "CRAWLFLEET_SERVER_MAX_BODY_MB": str(MAX_BODY_MB),
                # These tests bring many wrong keys; those about lock-outs set their own limit.
                "CRAWLFLEET_SERVER_WRONG_KEYS_PER_MINUTE": "0",
                **settings,
            },
        )
        self.keys = {role: secrets.token_hex(32) for role in Role} | {Role.ADMIN: self.fleet.key}
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def prepare(self) -> None:
        """Put the keys into the store, before the master opens it."""
        settings = Settings(data_dir=str(self.fleet.folder))
        asyncio.run(self._make_keys(settings))

    async def _make_keys(self, settings: Settings) -> None:
        store = open_store(f"sqlite:///{self.fleet.folder / 'crawlfleet.db'}")
        async with control_plane(settings, store) as control:
            for role, secret in self.keys.items():
                await control.keys.ensure(secret, name=f"the {role}", role=role)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = ADMIN,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send `body` as JSON, or as it is when it is bytes; `key` is a secret."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if content is not None else {}
        if key is not None:
            secret = self.fleet.key if key == ADMIN else key
            sent["Authorization"] = f"Bearer {secret}"
        sent.update(headers or {})
        if self._connection is None or time.monotonic() - self._used_at > KEPT_ALIVE_S:
            self.close()
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.fleet.port, timeout=ANSWER_WITHIN_S
            )
        try:
            self._connection.request(method, path, body=content, headers=sent)
            response = self._connection.getresponse()
            answer = Answer(response.status, _lower(response.getheaders()), response.read())
        except BaseException:
            self.close()
            raise
        self._used_at = time.monotonic()
        return answer

    def get(self, path: str, **options: Any) -> Any:
        return self.call("GET", path, **options).expect(200)

    def post(self, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Any:
        return self.call("POST", path, body, **options).expect(status)

    def send(self, data: bytes) -> Answer:
        """Send these very bytes on a connection of their own."""
        with socket.create_connection(
            ("127.0.0.1", self.fleet.port), timeout=ANSWER_WITHIN_S
        ) as peer:
            with suppress(ConnectionError):  # answered and closed before all was sent
                peer.sendall(data)
            response = http.client.HTTPResponse(peer)
            response.begin()
            return Answer(response.status, _lower(response.getheaders()), response.read())

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that the store holds, from its own file."""
        return {table: self.fleet.query(f"select * from {table} order by 1, 2") for table in TABLES}

    def log(self) -> str:
        return "".join(
            path.read_text("utf-8", errors="replace")
            for path in [self.fleet.folder / "up.log", *self.fleet.folder.glob("logs/*")]
        )

    def submit(self, **request: Any) -> str:
        """A new task's id."""
        return str(self.post("/api/v1/tasks", request, status=201)["id"])

    def key(self, name: str, role: str, **fields: Any) -> tuple[str, str]:
        """A new key: its id and its secret."""
        made = self.post("/api/v1/keys", {"name": name, "role": role, **fields}, status=201)
        return made["key"]["id"], made["secret"]

    def join_token(self, **fields: Any) -> tuple[str, str]:
        """A new join token: its id and its secret."""
        made = self.post("/api/v1/join-tokens", fields, status=201)
        return made["join_token"]["id"], made["secret"]

    def audit(self, **query: str) -> list[Any]:
        """The newest entries of the audit log."""
        return list(self.get(f"/api/v1/audit?{urlencode(query)}")["items"])

    def task(self, task_id: str) -> Any:
        return self.get(f"/api/v1/tasks/{task_id}")

    def order(self, task_id: str, verb: str, body: Any = None) -> Answer:
        return self.call("POST", f"/api/v1/tasks/{task_id}:{verb}", body)

    def node(self, **description: Any) -> "Node":
        """Register a new node."""
        return Node(self, **description)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Node:
    """What a worker says, said by hand."""

    def __init__(self, master: Master, **description: Any) -> None:
        self.master = master
        self.description = {"name": "by hand", **description}
        self.registered = master.post(
            "/api/v1/nodes:register", self.description, status=201, key=master.keys[Role.NODE]
        )
        self.id: str = self.registered["node_id"]
        self.token: str = self.registered["node_token"]
        self.session: str = self.registered["session_id"]
        self.path = f"/api/v1/nodes/{self.id}"

    def say(self, verb: str, body: Any = None) -> Answer:
        return self.master.call("POST", f"{self.path}:{verb}", body, key=self.token)

    def return_(self, **description: Any) -> Any:
        """Register again with the saved identity."""
        self.registered = self.master.post(
            "/api/v1/nodes:register",
            {**self.description, "node_id": self.id, **description},
            status=201,
            key=self.token,
        )
        self.session = self.registered["session_id"]
        return self.registered

    def beat(self, **fields: Any) -> Any:
        return self.say("heartbeat", {"session_id": self.session, **fields}).expect(200)

    def lease(self, held: list[str] | None = None, wait_s: float = 5.0) -> Any:
        request = {"session_id": self.session, "held": held or [], "wait_s": wait_s}
        return self.say("lease", request).expect(200)

    def take(self) -> Any:
        """The one assignment that the master has for this node."""
        (assignment,) = self.lease()["assignments"]
        return assignment

    def report(self, assignment: Mapping[str, Any], kind: str, **fields: Any) -> str:
        """The outcome of one report."""
        report = {name: assignment[name] for name in ("execution_id", "task_id", "token")}
        report |= {"kind": kind, "at": 1.0, **fields}
        body = {"session_id": self.session, "reports": [report]}
        (outcome,) = self.say("report", body).expect(200)["outcomes"]
        return str(outcome)

    def request(self, service: str, body: Any) -> Answer:
        """The answer to a request to a service of the master."""
        return self.master.call("POST", f"{self.path}/services/{service}", body, key=self.token)

    def order(self, verb: str) -> Answer:
        """What an operator orders about this node."""
        return self.master.call("POST", f"{self.path}:{verb}")

    def view(self) -> Any:
        return self.master.get(self.path)

    def leave(self) -> None:
        self.order("unregister").expect(200)


class CrawlingNode(Node):
    """A node with one crawl under way, that says what the test wants."""

    def __init__(self, master: Master, **request: Any) -> None:
        super().__init__(master, task_types=["web_crawl"], labels={"own": "1"})
        parameters = {"url": "https://shop.example/", "selectors": {"title": "h1"}}
        self.task: str = master.submit(task_type="web_crawl", parameters=parameters, **request)
        self.work = self.take()
        self.report(self.work, "started")
        self.path_of_crawl = f"/api/v1/crawls/{self.task}"
        self.sequence = 0

    def keep(self, text: bytes = b"", **segment: Any) -> Any:
        """Hand over the next segment; the one before it is committed."""
        self.sequence += 1
        whole = {
            "sequence": self.sequence,
            "first": self.sequence,
            "counted": self.sequence - 1,
            "items": text.count(b"\n"),
            **segment,
        }
        data = base64.b64encode(zlib.compress(text) if text else b"").decode()
        return self.store(whole, data=data).expect(200)

    def store(self, segment: Any, **fields: Any) -> Answer:
        """Hand over a segment, in the name of its execution unless `fields` say otherwise."""
        return self.request("output", self.upload(segment=segment, **fields))

    def upload(self, *, segment: Any, **fields: Any) -> dict[str, Any]:
        return {
            "session_id": self.session,
            "execution_id": self.work["execution_id"],
            "token": self.work["token"],
            "payload": {"segment": segment, "stream": "items"},
            **fields,
        }

    def note(self, **fields: Any) -> Any:
        note = {"execution_id": self.work["execution_id"], **fields}
        return self.say("note", {"session_id": self.session, "notes": [note]}).expect(200)

    def obey(self, **answer: Any) -> Any:
        """Wait for an order, and answer it; the order."""
        (order,) = self.lease([self.work["execution_id"]])["orders"]
        self.note(answers=[{"number": order["number"], **answer}])
        return order

    def ordered(self, verb: str, **answer: Any) -> tuple[Answer, Any]:
        """What an order of people is answered, and the order as it came here."""
        other = copy.copy(self.master)
        other._connection = None
        self.lease([self.work["execution_id"]], wait_s=0.0)
        with ThreadPoolExecutor(1) as people:
            asked = people.submit(other.call, *_asked(self.path_of_crawl, verb))
            order = self.obey(**answer)
            answered = asked.result()
        other.close()
        return answered, order

    def leave(self) -> None:
        """With the crawl, so that no other node gets it."""
        self.master.order(self.task, "cancel")
        super().leave()


def _asked(path: str, verb: str) -> tuple[str, str]:
    return ("GET", f"{path}/{verb}") if "?" in verb else ("POST", f"{path}:{verb}")


def sign_in(master: Master, key: str) -> dict[str, str]:
    """What a browser sends that signed in with this key, on our own page."""
    answer = master.call("POST", "/api/v1/session", {"key": key}, key=None)
    return {
        "Cookie": answer.headers["set-cookie"].partition(";")[0],
        "X-Crawlfleet-Csrf": answer.expect(201)["csrf"],
        "Origin": f"http://127.0.0.1:{master.fleet.port}",
    }


def archive(files: Mapping[str, str] | None = None) -> str:
    """An archive of code, in base64."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, text in (files or {"tool.py": "print(1)\n"}).items():
            packed.writestr(zipfile.ZipInfo(name), text)
    return base64.b64encode(content.getvalue()).decode()


def deploy(
    master: Master, project: str, name: str, files: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Hand over code."""
    body = {"name": name, "archive": archive(files)}
    path = f"/api/v1/projects/{project}/bundles"
    made: dict[str, Any] = master.post(path, body, status=201)
    return made


def dead_task(master: Master, **fields: Any) -> str:
    """A task that was given up."""
    task_type = f"doomed_{secrets.token_hex(4)}"
    node = master.node(task_types=[task_type])
    task_id = master.submit(task_type=task_type, max_retries=0, **fields)
    error = {"error_class": "network", "message": "cannot connect to shop.example"}
    assert node.report(node.take(), "failed", error=error) == "recorded"
    node.leave()
    return task_id


@contextmanager
def started(folder: Path, **settings: str) -> Iterator[Master]:
    """A master that answers, and in any case is gone at the end."""
    master = Master(folder, **settings)
    master.prepare()
    with running(master.fleet):
        asyncio.run(master.fleet.until_ready())
        until = time.monotonic() + ANSWER_WITHIN_S
        # By then it has made the link that it prints, which is in the audit log.
        while "crawlfleet is up" not in (folder / "up.log").read_text("utf-8"):
            assert time.monotonic() < until, "it does not say that it is up"
            time.sleep(0.02)
        try:
            yield master
        finally:
            master.close()


def _lower(headers: list[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


def measured_task(master: Master, series: str = "shop-prices") -> tuple[str, str]:
    """A task that has ended and found less than was expected, and the name of its series."""
    node = Node(master, task_types=["measured"])
    expected = {"series": series, "items": {"min": 3}, "on_drift": "hold"}
    id = master.submit(task_type="measured", expectations=expected)
    node.report(node.take(), "succeeded", data=[{"price": 1}, {"price": None}])
    node.leave()
    return id, series


def webhook_with_delivery(master: Master, project_id: str) -> tuple[str, str]:
    """The ids of a webhook, and of something that is on its way to it and does not arrive."""
    wanted = {"name": f"of-{project_id}", "url": "http://127.0.0.1:9/", "project_id": project_id}
    id = master.post("/api/v1/webhooks", wanted, status=201)["webhook"]["id"]
    master.submit(task_type="nobodys", project_id=project_id)
    ends = time.monotonic() + 30
    while not (found := master.get(f"/api/v1/webhooks/{id}/deliveries")["items"]):
        assert time.monotonic() < ends, "nothing is on its way"
        time.sleep(0.05)
    return id, found[0]["id"]
