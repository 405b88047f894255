"""Records the messages between a node and its master in `recordings/node-protocol.json`.

    python -m tests.api.record_node_protocol

It is run when the protocol was changed on purpose, never to please a test.
"""

import json
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).parent))


from crawlfleet.core.crawls import frontier_codec
from crawlfleet.model.bundle import BundleFetch
from crawlfleet.model.key import Role
from crawlfleet.model.log import Gap, LogLine, Progress
from crawlfleet.model.resources import Usage
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.model.wire.frontier import FrontierRequest, Open
from crawlfleet.model.wire.locks import LockRequest, LockVerb
from crawlfleet.model.wire.node_protocol import (
    PROTOCOL,
    Departure,
    DrainOrder,
    Heartbeat,
    LeaseRequest,
    Note,
    NoteBatch,
    OrderAnswer,
    Registration,
    Report,
    ReportBatch,
    ReportKind,
)
from crawlfleet.model.wire.output import Run, Segment, SegmentUpload
from crawlfleet.model.wire.politeness import (
    ADDRESS,
    DOMAIN,
    HOST,
    LedgerRequest,
    Pause,
    Return,
    Terms,
    WindowRequest,
)
from crawlfleet.model.wire.services import (
    BUNDLE,
    CODE,
    FRONTIER,
    LEDGER,
    LOCKS,
    OUTPUT,
    SECRETS,
    ServiceRequest,
)
from tests.api.plain_http import Master, archive, started

RECORDING: Final = Path(__file__).parent / "recordings" / "node-protocol.json"
NAMED: Final = ("node_id", "session_id", "execution_id", "task_id", "node_token")
"""What differs from one run to the next; a later one replaces an earlier one of that name."""


class Recorder:
    """Talks to a master, and writes down what was said with names in place of ids."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self.exchanges: list[dict[str, Any]] = []
        self.ids: dict[str, str] = {}

    def say(self, name: str, who: str, path: str, message: Any, *, fill: str = "") -> Any:
        """One exchange as the admin, with the join key, or as the node."""
        request = msgspec.to_builtins(message) if message is not None else None
        if fill:
            request = json.loads(fill)
        keys = {
            "admin": self._master.keys[Role.ADMIN],
            "join": self._master.keys[Role.NODE],
            "node": self.ids.get("node_token", ""),
        }
        answer = self._master.call("POST", self._with_ids(path), request, key=keys[who])
        assert answer.status in {200, 201}, answer.content
        exchange = {"name": name, "who": who, "path": path, "request": self._named(request)}
        self._learn(answer.json)
        self.exchanges.append(
            exchange | {"status": answer.status, "reply": self._named(answer.json)}
        )
        return answer.json

    def request(
        self,
        name: str,
        service: str,
        token: int,
        payload: Any = None,
        data: bytes = b"",
        **fields: Any,
    ) -> Any:
        """A request of the node to a service, in the name of its execution."""
        request = ServiceRequest(
            session_id=self.ids["session_id"],
            execution_id=fields.get("execution_id", self.ids["execution_id"]),
            token=token,
            payload=msgspec.Raw(msgspec.json.encode(payload)),
            data=data,
        )
        filled = msgspec.json.encode(request).decode()
        path = f"/api/v1/nodes/{{node_id}}/services/{service}"
        return self.say(name, "node", path, None, fill=filled)

    def _with_ids(self, text: str) -> str:
        for name, id in self.ids.items():
            text = text.replace("{" + name + "}", id)
        return text

    def _learn(self, value: Any) -> None:
        if isinstance(value, dict):
            for name in NAMED:
                if isinstance(value.get(name), str):
                    self.ids[name] = value[name]
            if str(value.get("id", "")).startswith("task-"):
                self.ids["task_id"] = value["id"]
        for each in value.values() if isinstance(value, dict) else value if _many(value) else ():
            self._learn(each)

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._named(each) for name, each in value.items()}
        if _many(value):
            return [self._named(each) for each in value]
        for name, id in self.ids.items():
            if value == id:
                return "{" + name + "}"
        return value


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple)


def record(master: Master) -> list[dict[str, Any]]:
    """A node's life, in which every message of the protocol is said."""
    to = Recorder(master)
    registration = Registration(
        name="recorded",
        description="of this version",
        ip_address="10.0.0.7",
        port=9000,
        node_type="standard",
        region="eu-west",
        labels={"rack": "7"},
        capabilities={"content_types": ["html"], "gpu": True},
        resources={"cpu": 4.0, "memory_mb": 4096.0, "slots": 2.0},
        task_types=("recorded",),
        protocol=PROTOCOL,
    )
    to.say("register", "join", "/api/v1/nodes:register", registration)
    beat = Heartbeat(
        resources=Usage(
            cpu_usage=0.5, memory_usage=0.25, gpu_usage=0.1, network_io=1000.0, disk_io=10.0
        ),
        load=0.5,
        active_tasks=("task-unknown",),
        session_id=to.ids["session_id"],
        configuration_version=0,
        session_timeout_s=600.0,
        number=1,
    )
    node = "/api/v1/nodes/{node_id}"
    to.say("heartbeat", "node", f"{node}:heartbeat", beat)
    task = {"task_type": "recorded", "parameters": {"n": 1}, "timeout": 60, "max_retries": 3}

    def lease(name: str, *held: str) -> Any:
        request = LeaseRequest(session_id=to.ids["session_id"], held=held, wait_s=5.0, backlog=4)
        return to.say(name, "node", f"{node}:lease", request)

    def report(name: str, kind: ReportKind, **fields: Any) -> None:
        report = Report(
            execution_id=to.ids["execution_id"],
            task_id=to.ids["task_id"],
            token=work["token"],
            kind=kind,
            at=1000.5,
            **fields,
        )
        batch = ReportBatch(session_id=to.ids["session_id"], reports=(report,))
        to.say(name, "node", f"{node}:report", None, fill=msgspec.json.encode(batch).decode())

    ends: dict[str, dict[str, Any]] = {
        "succeeded": {"data": msgspec.Raw(b'{"found":1}'), "metrics": {"pages": 2.0}},
        "failed": {
            "error": TaskError(error_class=ErrorClass.NETWORK, message="no", details="at line 1"),
            "ran_s": 0.25,
        },
        "released": {},
    }
    for kind, fields in ends.items():
        to.say(f"submit ({kind})", "admin", "/api/v1/tasks", task)
        work = lease(f"lease ({kind})")["assignments"][0]
        if kind == "succeeded":
            report("report started", ReportKind.STARTED)
            note = Note(
                execution_id=to.ids["execution_id"],
                lines=(LogLine(seq=1, at=1000.5, message="begun", fields={"n": 1}),),
                left_out=Gap(first=2, last=3),
                progress=Progress(done=1.0, total=2.0, at=1000.5),
            )
            batch = NoteBatch(session_id=to.ids["session_id"], notes=(note,))
            to.say("note", "node", f"{node}:note", batch)
        report(f"report {kind}", ReportKind(kind), **fields)
        if kind == "failed":
            to.say("cancel (failed)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    # What was given back comes again, under another token.
    work = lease("lease (again)")["assignments"][0]
    report("report succeeded at last", ReportKind.SUCCEEDED)
    to.say("submit (stop)", "admin", "/api/v1/tasks", task)
    work = lease("lease (stop)")["assignments"][0]
    report("report started (stop)", ReportKind.STARTED)
    to.say("cancel (stop)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    lease("lease with a stop order", to.ids["execution_id"])
    to.say("heartbeat with a stop order", "node", f"{node}:heartbeat", beat)
    report("report stopped", ReportKind.STOPPED)
    report("report stale", ReportKind.SUCCEEDED)
    to.say("rotate", "admin", f"{node}:rotate-token", None)
    to.say("heartbeat that orders a new token", "node", f"{node}:heartbeat", beat)
    to.say("renew the token", "node", f"{node}:renew-token", {})
    again = msgspec.structs.replace(registration, node_id=to.ids["node_id"])
    before = to.ids["session_id"]
    to.say("register again", "node", "/api/v1/nodes:register", again)
    to.say("leave", "node", f"{node}:unregister", Departure(session_id=to.ids["session_id"]))
    gone = msgspec.structs.replace(beat, session_id=before)
    to.say("heartbeat of an ended session", "node", f"{node}:heartbeat", gone)
    lease("lease of an ended session")
    return to.exchanges


def record_crawl(master: Master) -> list[dict[str, Any]]:
    """A node that crawls: what it says of figures, orders and output."""
    to = Recorder(master)
    registration = Registration(
        name="crawling", resources={"slots": 2.0}, task_types=("web_crawl",), protocol=PROTOCOL
    )
    to.say("register to crawl", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    task = {"task_type": "web_crawl", "parameters": {"url": "https://shop.example/"}}
    to.say("submit (crawl)", "admin", "/api/v1/tasks", task)
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (crawl)", "node", f"{node}:lease", request)["assignments"]
    figures = {"at": 1000.5, "pages": 1, "depths": [1], "hosts": [{"host": "https://shop.example"}]}
    note = Note(
        execution_id=to.ids["execution_id"],
        figures=figures,
        answers=(
            OrderAnswer(number=1, data=msgspec.Raw(b'{"url":"https://shop.example/"}')),
            OrderAnswer(number=2, error="not now"),
        ),
    )
    batch = NoteBatch(session_id=to.ids["session_id"], notes=(note,))
    filled = msgspec.json.encode(batch).decode()
    to.say("note with figures and answers", "node", f"{node}:note", None, fill=filled)
    lines = zlib.compress(b'["products",{"title":"Kettle"}]\n')
    run = Run(execution_id="exec-before", last=2, items=1)
    segments = (
        Segment(sequence=1, first=1, columns=("title",), kinds=True, earlier=(run,)),
        Segment(sequence=2, first=2, counted=1, items=1, is_part=True),
    )
    for segment, data in zip(segments, (b"", lines), strict=True):
        upload = SegmentUpload(segment=segment)
        to.request(f"store segment {segment.sequence}", OUTPUT, work["token"], upload, data)
    to.request("store a stale segment", OUTPUT, work["token"] + 1, upload)
    end = Departure(session_id=to.ids["session_id"])
    to.say("cancel (crawl)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    to.say("leave (crawl)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_frontier(master: Master) -> list[dict[str, Any]]:
    """A node that asks for the frontier of a crawl."""
    to = Recorder(master)
    registration = Registration(
        name="asking", resources={"slots": 1.0}, task_types=("web_crawl",), protocol=PROTOCOL
    )
    to.say("register to ask", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    task = {"task_type": "web_crawl", "parameters": {"url": "https://shop.example/"}}
    to.say("submit (frontier)", "admin", "/api/v1/tasks", task)
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (frontier)", "node", f"{node}:lease", request)["assignments"]
    data = frontier_codec.written(FrontierRequest(asks=[Open()]))
    to.request("ask the frontier", FRONTIER, work["token"], None, data)
    to.request("ask the frontier when it is stale", FRONTIER, work["token"] + 1, None, data)
    end = Departure(session_id=to.ids["session_id"])
    to.say("cancel (frontier)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    to.say("leave (frontier)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_leaving(master: Master) -> list[dict[str, Any]]:
    """A node that advertises its health endpoint, tells its time, and drains itself."""
    to = Recorder(master)
    registration = Registration(
        name="leaving",
        ip_address="10.0.0.7",
        port=8010,
        probe=True,
        resources={"slots": 1.0},
        task_types=("recorded",),
        protocol=PROTOCOL,
    )
    node = "/api/v1/nodes/{node_id}"
    to.say("register", "join", "/api/v1/nodes:register", registration)
    beat = Heartbeat(
        resources=Usage(cpu_usage=0.5, memory_usage=0.25, disk_usage=0.5, disk_free_mb=1000.0),
        session_id=to.ids["session_id"],
        number=1,
        sent_at=1000.5,
    )
    to.say("heartbeat with its time", "node", f"{node}:heartbeat", beat)
    to.say("drain", "node", f"{node}:drain", DrainOrder(deadline_s=30.0))
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    to.say("lease when it was drained", "node", f"{node}:lease", request)
    return to.exchanges


def record_inquiries(master: Master) -> list[dict[str, Any]]:
    """A node whose execution takes a lock, and asks when hosts may be visited."""
    to = Recorder(master)
    registration = Registration(
        name="inquiring", resources={"slots": 2.0}, task_types=("inquiring",), protocol=PROTOCOL
    )
    to.say("register to inquire", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    to.say("submit (inquire)", "admin", "/api/v1/tasks", {"task_type": "inquiring"})
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (inquire)", "node", f"{node}:lease", request)["assignments"]

    token = work["token"]
    take = LockRequest(verb=LockVerb.TAKE, name="recorded", number=1, lease_s=60.0)
    held = to.request("take a lock", LOCKS, token, take)["payload"]["token"]
    other = msgspec.structs.replace(take, number=2)
    to.request("take a lock that is held", LOCKS, token, other)
    for verb in (LockVerb.RENEW, LockVerb.RELEASE):
        mine = msgspec.structs.replace(take, verb=verb, token=held)
        to.request(f"{verb} a lock", LOCKS, token, mine)
    terms = tuple(Terms(f"{kind}recorded", 1.0, 2) for kind in (HOST, DOMAIN, ADDRESS))
    want = WindowRequest(host="recorded", keys=terms, waiting=3)
    wanted = LedgerRequest(wants=(want,), longest_s=70.0, engine="mate-0-0")
    to.request("ask for windows", LEDGER, token, wanted)
    back = Return(key=terms[0].key, started_ago_s=0.5, in_flight=1)
    pause = Pause(key=terms[0].key, for_s=30.0, why="Retry-After")
    to.request("pause a host", LEDGER, token, LedgerRequest(returns=(back,), pauses=(pause,)))
    left_alone = LedgerRequest(wants=(want,))
    to.request("ask for a host that is left alone", LEDGER, token, left_alone)
    to.say("cancel (inquire)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    end = Departure(session_id=to.ids["session_id"])
    to.say("leave (inquire)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_bundles(master: Master) -> list[dict[str, Any]]:
    """A node that fetches the code of an execution."""
    to = Recorder(master)
    registration = Registration(
        name="with code",
        resources={"slots": 1.0},
        task_types=("python",),
        capabilities={"bundles": True},
        protocol=PROTOCOL,
    )
    to.say("register to run code", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    bundle = {"name": "recorded", "archive": archive()}
    to.say("deploy", "admin", "/api/v1/projects/default/bundles", bundle)
    task = {"task_type": "python", "parameters": {"function": "tool:f"}, "bundle": "recorded"}
    to.say("submit (code)", "admin", "/api/v1/tasks", task)
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (code)", "node", f"{node}:lease", request)["assignments"]
    to.request("fetch the code", CODE, work["token"])
    to.request("fetch the code when it is stale", CODE, work["token"] + 1)
    unwanted = BundleFetch(digest="0" * 64)
    to.request("fetch a bundle that was not asked for", BUNDLE, 0, unwanted, execution_id="")
    to.say("cancel (code)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    end = Departure(session_id=to.ids["session_id"])
    to.say("leave (code)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_secrets(master: Master) -> list[dict[str, Any]]:
    """A node that fetches the secrets of an execution."""
    to = Recorder(master)
    registration = Registration(
        name="trusted",
        resources={"slots": 1.0},
        task_types=("python",),
        capabilities={"secrets": True},
        protocol=PROTOCOL,
    )
    to.say("register to be trusted", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    secret = {"name": "RECORDED", "value": "correct horse"}
    to.say("set a secret", "admin", "/api/v1/projects/default/secrets", secret)
    task = {"task_type": "python", "parameters": {"function": "f:f"}, "secrets": ["RECORDED"]}
    to.say("submit (secrets)", "admin", "/api/v1/tasks", task)
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (secrets)", "node", f"{node}:lease", request)["assignments"]
    to.request("fetch the secrets", SECRETS, work["token"])
    to.request("fetch the secrets when it is stale", SECRETS, work["token"] + 1)
    to.say("cancel (secrets)", "admin", "/api/v1/tasks/{task_id}:cancel", None)
    end = Departure(session_id=to.ids["session_id"])
    to.say("leave (secrets)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_measured(master: Master) -> list[dict[str, Any]]:
    """A node that knows that what it found may have to be said again."""
    to = Recorder(master)
    registration = Registration(
        name="patient", resources={"slots": 1.0}, task_types=("measured",), protocol=PROTOCOL
    )
    to.say("register to be patient", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    task = {"task_type": "measured", "expectations": {"items": {"min": 1}}}
    to.say("submit (measured)", "admin", "/api/v1/tasks", task)
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=5.0)
    (work,) = to.say("lease (measured)", "node", f"{node}:lease", request)["assignments"]
    report = Report(
        execution_id=work["execution_id"],
        task_id=work["task_id"],
        token=work["token"],
        kind=ReportKind.SUCCEEDED,
        at=1.0,
        data=msgspec.Raw(b"[1]"),
    )
    batch = ReportBatch(session_id=to.ids["session_id"], reports=(report,), knows_later=True)
    filled = msgspec.json.encode(batch).decode()
    to.say("report what is measured", "node", f"{node}:report", None, fill=filled)
    end = Departure(session_id=to.ids["session_id"])
    to.say("leave (measured)", "node", f"{node}:unregister", end)
    return to.exchanges


def record_connected(master: Master) -> list[dict[str, Any]]:
    """A node that has a connection for as long as it lives."""
    to = Recorder(master)
    registration = Registration(
        name="connected", resources={"slots": 1.0}, task_types=("none",), protocol=PROTOCOL
    )
    to.say("register to stay connected", "join", "/api/v1/nodes:register", registration)
    node = "/api/v1/nodes/{node_id}"
    request = LeaseRequest(session_id=to.ids["session_id"], wait_s=0.1, keeps_connection=True)
    to.say("lease (connected)", "node", f"{node}:lease", request)
    end = Departure(session_id=to.ids["session_id"])
    to.say("leave (connected)", "node", f"{node}:unregister", end)
    return to.exchanges


def main() -> None:
    exchanges: list[dict[str, Any]] = []
    for record_part in (
        record,
        record_bundles,
        record_connected,
        record_crawl,
        record_frontier,
        record_inquiries,
        record_leaving,
        record_measured,
        record_secrets,
    ):
        with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "fleet") as master:
            exchanges += record_part(master)
    document = {"protocol": PROTOCOL, "exchanges": exchanges}
    RECORDING.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(exchanges)} exchanges in {RECORDING}")


if __name__ == "__main__":
    main()
