"""A process that holds a lock and says what becomes of it: `python -m … MAKE URL MANNER FOLDER`.

Manners: `careful` checks before each write to what is guarded, `careless` never does, `count` adds
to a number in a file again and again, a lock for each time.
"""

import asyncio
import os
import sys
from pathlib import Path

from crawlfleet.errors import LockLost
from crawlfleet.testing.lock_suite.harness import ROUNDS, Guard, held_by, made


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(make: str, url: str, manner: str, folder: Path) -> None:
    locks = made(make, url)
    await locks.open()
    guard = Guard(folder / "guarded")
    me = f"{manner}-{os.getpid()}"
    try:
        if manner == "count":
            for number in range(ROUNDS):
                async with held_by(locks, f"{me}-{number}", lease_s=30.0, wait_s=100.0) as lock:
                    count = _read(folder / "count")
                    await asyncio.sleep(0.001)
                    (folder / "count").write_text(str(count + 1))
                    assert guard.write(lock.token, me), "a later holder was here before"
            say("done")
            return
        async with held_by(locks, me) as lock:
            say("held", lock.token)
            while True:
                if manner == "careful":
                    await asyncio.to_thread(os.read, 0, 1)
                    lock.check()
                else:
                    os.read(0, 1)  # nothing is renewed meanwhile, and nothing heard
                say("wrote" if guard.write(lock.token, me) else "refused")
    except LockLost:
        say("lost")
    finally:
        await locks.close()


def _read(path: Path) -> int:
    return int(path.read_text()) if path.exists() else 0


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
