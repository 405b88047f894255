"""The seccomp filter of cells: a BPF program that refuses system calls.

The filter lists the denied calls, not the allowed ones, because any program in any language may
run in a cell, and new libraries use new calls. It denies calls that read other processes, change
mounts, make namespaces, load code into the kernel, open other networks than TCP and UDP, or make
set-uid programs. Calls that are newer than this list fail with `ENOSYS`.
"""

import errno
import struct
from functools import cache
from typing import Final

from crawlfleet.sandbox.kernel.syscalls import IS_ARM

_DENIED: Final[dict[str, tuple[int, int]]] = {
    # name: the number on x86-64, and on 64-bit ARM (-1: there is none)
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
    "uselib": (134, -1),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
}
_SHARED: Final[dict[str, tuple[int, int]]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Landlock does not check these.
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Denied where the cell shares the namespaces and the files of the machine."""
_WITH_MODE: Final[dict[str, tuple[int, int, int]]] = {
    # name: the numbers, and which argument is the mode
    "chmod": (90, -1, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "creat": (85, -1, 1),
    "mknod": (133, -1, 1),
    "mknodat": (259, 33, 2),
}
"""Calls that can set the set-uid and set-gid bits."""
_OPENING: Final[dict[str, tuple[int, int, int]]] = {
    # name: the numbers, and which argument are the flags; the mode is the next
    "open": (2, -1, 1),
    "openat": (257, 56, 2),
}
_OPENAT2: Final = (437, 437)
_SET_ID: Final = 0o6000
_MAKES_FILE: Final = 0o100 | 0o20_000_000
"""`O_CREAT` and `O_TMPFILE`: only with these flags the call has a mode."""
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_SENDTO: Final = (44, 206)
_SENDMSG: Final = (46, 211)
_SENDMMSG: Final = (307, 269)
_IOCTL: Final = (16, 29)
_NEWEST: Final = 470
_NAMESPACES: Final = 0x7E02_0000
_FASTOPEN: Final = 0x2000_0000
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""`TIOCSTI` and `TIOCLINUX` put input into another terminal."""
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _TYPE_MASK = 1, 2, 0xF
_TCP: Final = 6

_ARCHITECTURE: Final = 0xC000_00B7 if IS_ARM else 0xC000_003E
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000


def denied_names() -> tuple[str, ...]:
    """Return the names of the calls that are denied everywhere."""
    return tuple(_DENIED)


@cache
def program(*, own_namespaces: bool, internet: bool = True) -> bytes:
    """Return the filter. Without `own_namespaces` it is stricter about sockets, shared memory and
    file permissions; without `internet` it refuses all TCP and UDP sockets."""
    lines = [
        _step(_LOAD, _ARCH),
        # A call has another number in another instruction set, so a cell may not change it.
        *_unless(_EQUAL, _ARCHITECTURE, _step(_RETURN, _KILL)),
        _step(_LOAD, _NUMBER),
        *_when(_AT_LEAST, _NEWEST, _refuse(errno.ENOSYS)),
        # libc falls back to older calls, and a filter cannot read the arguments of these.
        *_when(_EQUAL, _here(_CLONE3), _refuse(errno.ENOSYS)),
        *_when(_EQUAL, _here(_OPENAT2), _refuse(errno.ENOSYS)),
    ]
    for numbers in _DENIED.values():
        if _here(numbers) >= 0:
            lines += _when(_EQUAL, _here(numbers), _refuse())
    lines += _about(_CLONE, [*_argument(0), *_when(_ANY_OF, _NAMESPACES, _refuse())])
    lines += _set_id_bits()
    terminal = [_argument(1)[0]]
    for request in _TERMINAL_INPUT:
        terminal += _when(_EQUAL, request, _refuse())
    lines += _about(_IOCTL, terminal)
    lines += _about(_SOCKET, _sockets(own_namespaces, internet))
    if not own_namespaces:
        for numbers in _SHARED.values():
            if _here(numbers) >= 0:
                lines += _when(_EQUAL, _here(numbers), _refuse())
        # This flag connects without Landlock checking the port.
        for numbers, place in ((_SENDTO, 3), (_SENDMSG, 2), (_SENDMMSG, 3)):
            lines += _about(numbers, [*_argument(place), *_when(_ANY_OF, _FASTOPEN, _refuse())])
    lines.append(_step(_RETURN, _ALLOW))
    return b"".join(lines)


def _set_id_bits() -> list[bytes]:
    """Refuse set-uid and set-gid bits: a program that a cell leaves must not run as its owner."""
    lines = []
    for *numbers, place in _WITH_MODE.values():
        refuse = [*_argument(place), *_when(_ANY_OF, _SET_ID, _refuse())]
        lines += _about((numbers[0], numbers[1]), refuse)
    for *numbers, place in _OPENING.values():
        mode = [*_argument(place + 1), *_when(_ANY_OF, _SET_ID, _refuse())]
        makes = [*_argument(place), *_when(_ANY_OF, _MAKES_FILE, *mode)]
        lines += _about((numbers[0], numbers[1]), makes)
    return lines


def _sockets(own_namespaces: bool, internet: bool) -> list[bytes]:
    """Filter the call `socket` by family, type and protocol."""
    inet = [*_argument(1), _step(_AND, _TYPE_MASK), *_when(_EQUAL, _STREAM, *_only_tcp())]
    if own_namespaces:
        inet += _when(_EQUAL, _DATAGRAM, _step(_RETURN, _ALLOW))
    inet.append(_refuse())
    netlink = [*_argument(2), *_unless(_EQUAL, 0, _refuse()), _step(_RETURN, _ALLOW)]
    lines = _argument(0)
    if own_namespaces:
        lines += _when(_EQUAL, _AF_UNIX, _step(_RETURN, _ALLOW))
    if internet:
        lines += _when(_EQUAL, _AF_INET, *inet)
        lines += _when(_EQUAL, _AF_INET6, *inet)
    lines += _when(_EQUAL, _AF_NETLINK, *netlink)
    return [*lines, _refuse(errno.EAFNOSUPPORT)]


def _only_tcp() -> list[bytes]:
    """Allow no protocol number, or TCP: others, such as MPTCP, bypass Landlock."""
    return [
        *_argument(2),
        *_when(_EQUAL, 0, _step(_RETURN, _ALLOW)),
        *_when(_EQUAL, _TCP, _step(_RETURN, _ALLOW)),
        _refuse(),
    ]


def _about(numbers: tuple[int, int], lines: list[bytes]) -> list[bytes]:
    """Return the lines for one call; they end with the number of the call loaded again."""
    if _here(numbers) < 0:
        return []
    return _when(_EQUAL, _here(numbers), *lines, _step(_LOAD, _NUMBER))


def _when(test: int, value: int, *lines: bytes) -> list[bytes]:
    return [_step(test, value, 0, len(lines)), *lines]


def _unless(test: int, value: int, *lines: bytes) -> list[bytes]:
    return [_step(test, value, len(lines), 0), *lines]


def _argument(place: int) -> list[bytes]:
    """Load the lower 32 bits of an argument."""
    return [_step(_LOAD, _ARGUMENTS + 8 * place)]


def _refuse(number: int = errno.EPERM) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _here(numbers: tuple[int, int]) -> int:
    return numbers[IS_ARM]
