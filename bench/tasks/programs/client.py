"""`python client.py SYSTEM`: submits tasks to a system as told, one JSON object a line.

A process of its own for every system, so that its CPU time is the cost of submitting.
"""

import importlib
import json
import random
import sys
import time
from typing import Any

import work


def single(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """One call after the other, each answered before the next."""
    for _ in range(order["tasks"]):
        system.submit("nothing", {"payload": work.PAYLOAD})
    return {}


def batch(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """The best bulk way that the system has."""
    system.submit_many("nothing", [{"payload": work.PAYLOAD}] * order["tasks"])
    return {}


def fill(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """As many tasks as asked for, or as go in within the time."""
    deadline, done = time.monotonic() + order["within_s"], 0
    while done < order["tasks"] and time.monotonic() < deadline:
        system.submit_many("nothing", [{"payload": work.PAYLOAD}] * 2000)
        done += 2000
    return {"tasks": done}


def trickle(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """One task now and then, each with the time of its sending."""
    chance = random.Random(1)
    for _ in range(order["tasks"]):
        system.submit("mark", {"file": order["file"], "sent": time.time()})
        time.sleep(chance.uniform(0.5, 1.5) * order["gap_s"])
    return {}


def numbers(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Tasks that take a while and leave their number."""
    system.submit_many(
        "write",
        [
            {"file": order["file"], "number": number, "seconds": order["seconds"]}
            for number in range(order["tasks"])
        ],
    )
    return {}


def left(system: Any, order: dict[str, Any]) -> dict[str, Any]:
    """How many tasks the system knows that have not ended."""
    return {"left": system.left()}


ORDERS = {each.__name__: each for each in (single, batch, fill, trickle, numbers, left)}


def main() -> None:
    system = importlib.import_module(f"with_{sys.argv[1]}").System()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        begun, cpu = time.perf_counter(), time.process_time()
        answer = ORDERS[order["do"]](system, order)
        answer |= {"seconds": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}
        print(json.dumps(answer), flush=True)
    system.close()


if __name__ == "__main__":
    main()
