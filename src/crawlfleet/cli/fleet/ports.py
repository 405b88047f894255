"""Explains why a port cannot be listened on: the process that has it, and what to do."""

import errno
import socket
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import psutil  # type: ignore[import-untyped]

MAX_TRIED: Final = 50
"""Ports that are looked at for a free one."""


class PortTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing can listen there."""

    why: str
    remedy: str


def taken(host: str, port: int) -> PortTaken | None:
    """Why a master could not listen there; `None` when it could."""
    error = _refusal(host, port)
    if error is None:
        return None
    where = f"{host}:{port}"
    other = _next_free(host, port)
    choose = f"choose another port{f', such as --port {other}' if other else ' with --port'}"
    if error.errno == errno.EADDRINUSE:
        holder = _listener(port)
        return PortTaken(why=f"{where} is taken by {holder}", remedy=f"stop it, or {choose}")
    if error.errno == errno.EACCES:
        return PortTaken(why=f"{where} may be used by root alone", remedy=choose)
    return PortTaken(
        why=f"nothing can listen on {where}: {error.strerror}",
        remedy="give an address of this machine with --host",
    )


def _refusal(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _next_free(host: str, port: int) -> int | None:
    after = range(max(port, 1023) + 1, min(port + MAX_TRIED, 65_536))
    return next((each for each in after if _refusal(host, each) is None), None)


def _listener(port: int) -> str:
    """Describe the process that listens on a port, as far as this user may see it."""
    try:
        found = [
            each.pid
            for each in psutil.net_connections(kind="tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port and each.pid
        ]
        process = psutil.Process(found[0])
        return described(process.name(), process.cmdline(), process.pid)
    except (IndexError, psutil.Error, OSError):
        return "a program of another user"


def described(name: str, command: Sequence[str], pid: int) -> str:
    """Describe a process; a master of crawlfleet with its data folder."""
    if "crawlfleet" not in " ".join(command[:3]):
        return f"{name} (process {pid})"
    where = dict(pairwise(command)).get("--data", "")
    return f"a crawlfleet master (process {pid}{f', data in {where}' if where else ''})"
