"""Raw TCP out of a cell, made within its own network namespace.

There is no wire: every connection, to whatever address, ends at a door that the agent answers, and
so does every question to a name server. So there is nothing of it on the machine, nothing that has
to be removed, and no packet that could go elsewhere.
"""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
from typing import Final

from crawlfleet.sandbox.kernel import syscalls

TCP_PORT: Final = 3129
NAMES_PORT: Final = 3130
PROGRAM: Final = "nft"
PLACES: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
WAIT_S: Final = 10.0
HOME: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
RULES: Final = f"""
table inet cell {{
    chain out {{
        type nat hook output priority -100; policy accept;
        udp dport 53 redirect to :{NAMES_PORT}
        ip daddr 127.0.0.0/8 return
        ip6 daddr ::1 return
        meta l4proto tcp redirect to :{TCP_PORT}
    }}
}}
"""
"""What stays is for the cell itself: its own loopback, which nobody else can reach."""

_LOOPBACK: Final = 1
_NEW_ROUTE: Final = 24
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR: Final = 2
_MAIN_TABLE, _STATIC, _FROM_HERE, _LOCAL = 254, 4, 254, 2
_OUT_BY, _FROM = 4, 7


def open_doors() -> list[socket.socket]:
    """Have all connections and questions of this namespace end here, and listen for them: one door
    for TCP and one for names in each family that there is. Raises `OSError`."""
    doors: list[socket.socket] = []
    with contextlib.ExitStack() as undo:
        for family, host in HOME.items():
            try:
                pair = _doors(family, host)
            except OSError:
                if family == socket.AF_INET:
                    raise
                continue  # a machine without IPv6
            for door in pair:
                undo.callback(door.close)
            _lead_home(family, host)
            doors += pair
        _redirect()
        undo.pop_all()
    return doors


def _doors(family: int, host: str) -> list[socket.socket]:
    first = _door(family, host, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(first.close)
        second = _door(family, host, socket.SOCK_DGRAM)
        undo.pop_all()
    return [first, second]


def _door(family: int, host: str, kind: int) -> socket.socket:
    door = socket.socket(family, kind)
    with contextlib.ExitStack() as undo:
        undo.callback(door.close)
        door.bind((host, TCP_PORT if kind == socket.SOCK_STREAM else NAMES_PORT))
        if kind == socket.SOCK_STREAM:
            door.listen(128)
        undo.pop_all()
    return door


def _lead_home(family: int, host: str) -> None:
    """Every address is this namespace's own: without a route nobody would get as far as the rules
    that redirect."""
    scope = _FROM_HERE if family == socket.AF_INET else 0
    route = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _MAIN_TABLE, _STATIC, scope, _LOCAL, 0)
    route += struct.pack("=HHI", 8, _OUT_BY, _LOOPBACK)
    source = socket.inet_pton(family, host)
    route += struct.pack("=HH", 4 + len(source), _FROM) + source
    flags = _REQUEST | _ACK | _CREATE | _EXCLUSIVE
    head = struct.pack("=IHHII", 16 + len(route), _NEW_ROUTE, flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asking:
        asking.send(head + route)
        answer = asking.recv(4096)
    kind = struct.unpack_from("=H", answer, 4)[0]
    number = -struct.unpack_from("=i", answer, 16)[0] if kind == _ERROR else 0
    if number:
        raise OSError(number, f"route: {os.strerror(number)}")


def _redirect() -> None:
    program = shutil.which(PROGRAM, path=PLACES)
    if program is None:
        raise OSError(f"there is no program {PROGRAM} (Debian: nftables)")
    done = subprocess.run(  # noqa: S603 (a program of the system, with rules of ours)
        [program, "-f", "-"],
        input=RULES.encode(),
        capture_output=True,
        env={},
        # A plain user has the rights of the namespace, which programs do not get by themselves.
        preexec_fn=lambda: syscalls.pass_on(syscalls.CAP_NET_ADMIN),
        timeout=WAIT_S,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"{PROGRAM}: {said[0] if said else f'ended with {done.returncode}'}")
