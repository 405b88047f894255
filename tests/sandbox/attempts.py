"""Attempts to break out, as a hostile program would make them; run within a cell.

`python attempts.py NAME…` with the victims as JSON in `VICTIMS`: prints one line of JSON for each
attempt, with whether it was held and what the kernel said. Needs nothing but the standard library.
"""

import base64
import ctypes
import errno
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
VICTIMS = json.loads(os.environ.get("VICTIMS", "{}"))
ARM = os.uname().machine == "aarch64"
ATTEMPTS = {}


def attempt(title):
    def register(function):
        ATTEMPTS[function.__name__] = (title, function)
        return function

    return register


def call(x86, arm, *arguments):
    """A call of the kernel; raises what it says."""
    result = libc.syscall(arm if ARM else x86, *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return f"returned {result}"


def read(path):
    data = pathlib.Path(path).read_bytes()
    if not data:
        raise OSError(errno.ENODATA, "empty")
    return f"read {len(data)} bytes"


def write(path, data=b"x"):
    with open(path, "r+b") as file:
        file.write(data)
    return "written"


# Files


@attempt("read the agent's environment")
def agent_environment():
    return read(f"/proc/{VICTIMS['agent']}/environ")


@attempt("read the agent's memory")
def agent_memory():
    with open(f"/proc/{VICTIMS['agent']}/mem", "rb") as file:
        file.seek(4096 * 16)
        return f"opened {file.read(1)!r}"


@attempt("see the agent's process and command line")
def agent_command_line():
    return read(f"/proc/{VICTIMS['agent']}/cmdline")


@attempt("list the processes of others")
def processes_of_others():
    mine = {os.getpid(), os.getppid(), 1}
    others = [each for each in os.listdir("/proc") if each.isdigit() and int(each) not in mine]
    if not others:
        raise OSError(errno.ENOENT, "only its own")
    return f"saw {len(others)}"


@attempt("read the node's token from the data folder")
def node_token():
    return read(VICTIMS["token"])


@attempt("list the agent's data folder")
def data_folder():
    names = os.listdir(os.path.dirname(VICTIMS["token"]))
    if not names:
        raise OSError(errno.ENOENT, "empty")
    return f"saw {names}"


@attempt("read another task's scratch folder")
def other_scratch():
    return read(VICTIMS["scratch"])


@attempt("read a private file of a user")
def private_file():
    return read(VICTIMS["private"])


@attempt("follow a symbolic link of its own out of the scratch folder")
def symlink_out():
    os.symlink(VICTIMS["token"], "link")
    return read("link")


@attempt("make a hard link to what it may not read")
def hard_link_out():
    os.link(VICTIMS["token"], "hard")
    return read("hard")


@attempt("climb out through /proc/self/root and the root of the first process")
def climb_out():
    last = None
    for top in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd" + "/.." * 20):
        try:
            return read(top + VICTIMS["token"])
        except OSError as error:
            last = error
    raise last


@attempt("replace a program of the system")
def replace_program():
    path = "/usr/bin/crawlfleet-planted"
    with open(path, "w") as file:
        file.write("#!/bin/sh")
    os.unlink(path)
    return "written"


@attempt("change an installed package")
def change_package():
    path = os.path.join(VICTIMS["packages"], "planted.pth")
    with open(path, "w") as file:
        file.write("import os")
    os.unlink(path)
    return "written"


@attempt("preload a library into every program of the machine")
def preload_library():
    path = "/etc/ld.so.preload"
    there = os.path.exists(path)
    with open(path, "a"):
        pass
    if not there:
        os.unlink(path)
    return "opened for writing"


@attempt("make the node of a disk and open it")
def make_disk_node():
    os.mknod("disk", 0o600 | 0o060000, os.makedev(*VICTIMS["disk"]))
    return read("disk")


@attempt("change the kernel's settings (core_pattern)")
def kernel_settings():
    path = "/proc/sys/kernel/core_pattern"
    return write(path, pathlib.Path(path).read_bytes())


@attempt("press the magic key (sysrq)")
def magic_key():
    with open("/proc/sysrq-trigger", "wb"):
        return "opened"


@attempt("lift its limits in the control groups")
def lift_group_limits():
    for top, _, files in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in files:
            with open(os.path.join(top, "cgroup.procs"), "w") as file:
                file.write("0")
            return f"entered {top}"
    raise OSError(errno.ENOENT, "no control groups to be seen")


@attempt("find a secret in its own environment or its parent's")
def secrets_around():
    seen = "\n".join(f"{name}={value}" for name, value in os.environ.items())
    for pid in ("self", str(os.getppid()), "1"):
        try:
            seen += pathlib.Path(f"/proc/{pid}/environ").read_text(errors="replace")
        except OSError:
            continue
    if VICTIMS["secret"] in seen.replace(os.environ["VICTIMS"], ""):
        return "found"
    raise OSError(errno.ENOENT, "nothing there")


@attempt("use a file that the agent left open")
def inherited_files():
    goals = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            goals.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    harmless = ("pipe:", "/proc/", "/dev/null", "anon_inode")
    odd = [goal for goal in goals if not goal.startswith(harmless) and "attempts" not in goal]
    if not odd:
        raise OSError(errno.ENOENT, "only its pipes")
    return f"found {odd}"


# Other processes


@attempt("trace the agent (ptrace)")
def trace_agent():
    return call(101, 117, 16, VICTIMS["victim"], 0, 0)


@attempt("read another process's memory (process_vm_readv)")
def read_process():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    remote = struct.pack("QQ", 0x400000, 8)
    return call(310, 270, VICTIMS["victim"], local, 1, remote, 1, 0)


@attempt("kill a process of the agent's")
def kill_victim():
    os.kill(VICTIMS["victim"], signal.SIGTERM)
    time.sleep(0.2)
    return "signal sent"


@attempt("kill everything that it can (kill -1)")
def kill_all():
    # Signal 0 asks who could be reached, and harms nobody.
    os.kill(VICTIMS["agent"], 0)
    return "the agent can be reached"


@attempt("take a file from another process (pidfd_getfd)")
def take_file():
    fd = os.pidfd_open(VICTIMS["victim"])
    return call(438, 438, fd, 0, 0)


@attempt("kill the supervisor process of the cell")
def kill_supervisor():
    supervisor = os.getppid()
    os.kill(supervisor, signal.SIGKILL)
    time.sleep(0.3)
    if os.getppid() == supervisor:
        raise OSError(errno.EPERM, "the signal had no effect")
    return "the supervisor is gone"


@attempt("read the memory of the supervisor process")
def supervisor_memory():
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        return "opened"


@attempt("read another process's shared memory (System V)")
def shared_memory():
    return call(29, 194, VICTIMS["shm_key"], 8, 0)


@attempt("read a file in the machine's /dev/shm")
def shared_memory_file():
    return read(VICTIMS["dev_shm"])


# Rights


@attempt("become root (setuid)")
def become_root():
    os.setuid(0)
    if not VICTIMS["is_root"] or os.geteuid() != 0:
        return "is root"
    raise OSError(errno.EPERM, "was it already, without its rights")


@attempt("run a set-uid program")
def set_uid_program():
    done = subprocess.run(
        [VICTIMS["setuid"], "-p", "-c", "echo $EUID"], capture_output=True, text=True
    )
    if done.stdout.strip() == "0" and os.geteuid() != 0:
        return "runs as root"
    if done.returncode:
        raise OSError(errno.EACCES, done.stderr.strip()[:80])
    raise OSError(errno.EPERM, "the bit has no effect")


@attempt("leave a set-uid program behind, by every call that takes a mode")
def leave_set_uid():
    pathlib.Path("plain").touch()
    how = struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)

    def has_bit(name, act):
        act()
        if not os.stat(name).st_mode & 0o6000:
            raise OSError(errno.EPERM, "the bit was left out")
        return f"{name} has it"

    return any_of(
        lambda: has_bit("plain", lambda: os.chmod("plain", 0o4755)),
        lambda: has_bit("plain", lambda: os.fchmod(os.open("plain", os.O_RDWR), 0o2755)),
        lambda: has_bit("plain", lambda: call(452, 452, -100, b"plain", 0o4755, 0)),
        lambda: has_bit("opened", lambda: os.open("opened", os.O_CREAT | os.O_RDWR, 0o4755)),
        lambda: has_bit("node", lambda: os.mknod("node", 0o104755)),
        lambda: has_bit("how", lambda: call(437, 437, -100, b"how", how, len(how))),
    )


@attempt("open a private file of the worker's user to all (chmod), in every spelling")
def open_to_all():
    path = VICTIMS["private"].encode()
    return any_of(
        lambda: os.chmod(path, 0o666),
        lambda: call(268, 53, -100, path, 0o666),
        lambda: call(452, 452, -100, path, 0o666, 0),
        lambda: os.chmod(os.path.dirname(VICTIMS["token"]), 0o777),
    )


@attempt("give away a file of the worker's user (chown), or mark it (setxattr)")
def give_away():
    path = VICTIMS["private"]
    return any_of(
        lambda: os.chown(path, -1, os.getgid()),
        lambda: os.lchown(path, os.getuid(), -1),
        lambda: os.setxattr(path, "user.mark", b"x"),
    )


@attempt("be root on the machine")
def be_root():
    outside = pathlib.Path("/proc/self/uid_map").read_text().split()
    if os.getuid() == 0 and outside[:2] == ["0", "0"]:
        return "is root"
    raise OSError(errno.EPERM, f"is {os.getuid()}")


@attempt("use any capability")
def use_capability():
    status = pathlib.Path("/proc/self/status").read_text()
    held = [
        line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapBnd"))
    ]
    if any(int(each, 16) for each in held[:1]):
        return f"holds {held}"
    raise OSError(errno.EPERM, "has none")


@attempt("make a user namespace, to be root there (unshare)")
def user_namespace():
    return call(272, 97, 0x10000000)


@attempt("make namespaces by fork (clone)")
def clone_namespace():
    pid = libc.syscall(220 if ARM else 56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    os.waitpid(pid, 0)
    return "made one"


@attempt("enter the agent's namespaces (setns)")
def enter_namespace():
    fd = os.open(f"/proc/{VICTIMS['agent']}/ns/mnt", os.O_RDONLY)
    return call(308, 268, fd, 0)


@attempt("mount something")
def mount():
    return call(165, 40, b"tmpfs", b"/tmp", b"tmpfs", 0, 0)


@attempt("unmount what hides things")
def unmount():
    return call(166, 39, b"/proc", 2)


@attempt("change its root (chroot)")
def change_root():
    return call(161, 51, b".")


@attempt("open a file by its handle")
def open_by_handle():
    return call(304, 265, -100, b"\0" * 16, 0)


@attempt("load a program into the kernel (bpf)")
def load_bpf():
    return call(321, 280, 0, b"\0" * 64, 64)


@attempt("load a module into the kernel")
def load_module():
    return call(175, 105, b"x", 1, b"")


@attempt("start another kernel (kexec), or the machine anew")
def other_kernel():
    try:
        return call(246, 104, 0, 0, 0, 0)
    except OSError:
        return call(169, 142, 0, 0, 0, 0)


@attempt("use the kernel's key rings")
def key_rings():
    return call(250, 219, 0, -4, 1)


@attempt("watch the whole machine (perf_event_open)")
def watch_machine():
    return call(298, 241, b"\0" * 128, -1, 0, -1, 0)


@attempt("go around the filter with io_uring")
def ring():
    return call(425, 425, 1, b"\0" * 120)


@attempt("stall the kernel's page faults (userfaultfd)")
def page_faults():
    return call(323, 282, 0)


@attempt("read the kernel's log")
def kernel_log():
    return call(103, 116, 3, ctypes.create_string_buffer(64), 64)


@attempt("set the clock")
def set_clock():
    now = time.time()
    return call(227, 112, 0, struct.pack("qq", int(now), 0))


@attempt("rename the machine")
def rename_machine():
    name = os.uname().nodename.encode()
    return call(170, 161, name, len(name))


@attempt("type into the agent's terminal (TIOCSTI)")
def type_into_terminal():
    return call(16, 29, 0, 0x5412, b"x")


@attempt("raise its limits again")
def raise_limits():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from None
    return "raised"


@attempt("change to another instruction set (x32)")
def other_instructions():
    if ARM:
        raise OSError(errno.ENOSYS, "there is none")
    pid = os.fork()
    if pid == 0:
        libc.syscall(0x40000000 | 39)
        os._exit(0 if ctypes.get_errno() == 0 else ctypes.get_errno())
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(errno.ENOSYS, f"ended with {status}")
    return "answered"


# Network


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        sock.connect(address)
        return f"connected to {address}, {heard(sock)}"


def heard(sock):
    sock.settimeout(2)
    try:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return f"told {sock.recv(100)!r}"
    except BrokenPipeError as error:
        raise OSError(errno.ECONNRESET, str(error)) from None
    except TimeoutError:
        return "told nothing"


def any_of(*tries):
    """The first that gets through, or what the last was told."""
    last = OSError(errno.ENOENT, "nothing tried")
    for each in tries:
        try:
            return each()
        except OSError as error:
            last = error
    raise last


@attempt("open a raw socket")
def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "opened"


@attempt("listen to all packets (AF_PACKET)")
def packet_socket():
    socket.socket(17, socket.SOCK_RAW, 0x0300)
    return "opened"


@attempt("reach the hypervisor (AF_VSOCK), or the kernel's ciphers (AF_ALG)")
def odd_sockets():
    return any_of(lambda: str(socket.socket(40, 1)), lambda: str(socket.socket(38, 5)))


@attempt("connect to a service on the machine's loopback, in six spellings")
def loopback():
    port = VICTIMS["port"]
    spellings = ("127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "localhost")
    tries = [lambda host=host: connect(socket.AF_INET, (host, port)) for host in spellings]
    tries.append(lambda: connect(socket.AF_INET6, ("::1", port)))
    tries.append(lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", port)))
    return any_of(*tries)


@attempt("connect to the machine's own address")
def own_address():
    return connect(socket.AF_INET, (VICTIMS["address"], VICTIMS["port"]))


@attempt("connect to the metadata service")
def metadata():
    return connect(socket.AF_INET, ("169.254.169.254", 80))


@attempt("connect by the first packet (MSG_FASTOPEN)")
def fast_open():
    def send(host):
        with socket.socket() as sock:
            sock.sendto(b"x", 0x20000000, (host, VICTIMS["port"]))
            return f"sent, {heard(sock)}"

    return any_of(*(lambda host=host: send(host) for host in ("127.0.0.1", VICTIMS["address"])))


@attempt("ask a name server, or send any datagram")
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.sendto(b"x", ("127.0.0.1", VICTIMS["udp"]))
        sock.connect((VICTIMS["address"], VICTIMS["udp"]))
        sock.send(b"x")
        return f"sent, and told {sock.recv(100)!r}"  # whom it reaches answers


@attempt("resolve a name")
def resolve():
    found = socket.getaddrinfo("example.org", 80)
    return f"found {found[0][4]}"


@attempt("connect to a unix socket of the machine's")
def unix_socket():
    return connect(socket.AF_UNIX, VICTIMS["unix"])


@attempt("connect to an abstract unix socket of the machine's")
def abstract_socket():
    return connect(socket.AF_UNIX, "\0" + VICTIMS["abstract"])


def by_proxy(hosts):
    """Whether the proxy lets any of them through; asked in both ways that it knows."""
    if not os.environ.get("HTTP_PROXY"):
        raise OSError(errno.ENETUNREACH, "no proxy")
    secret, _, place = os.environ["HTTP_PROXY"].partition("//")[2].rpartition("@")
    shown = f"Proxy-Authorization: Basic {base64.b64encode(secret.encode()).decode()}"
    told = set()
    for host in hosts:
        for line in (f"GET http://{host}/ HTTP/1.1", f"CONNECT {host} HTTP/1.1"):
            with socket.socket() as sock:
                sock.settimeout(20)
                name, _, port = place.rpartition(":")
                sock.connect((name, int(port)))
                sock.sendall(f"{line}\r\nHost: x\r\n{shown}\r\n\r\n".encode())
                answer = b""
                while data := sock.recv(65536):
                    answer += data
                    if b" 200 " in answer:
                        return f"{line} was let through"
            code = answer[9:12].decode()
            # A name that nobody knows leads nowhere.
            is_refused = code in ("400", "403") or b"not found" in answer
            if b"crawlfleet:" not in answer or not is_refused:
                return f"{line} was answered {answer[:200]!r}"
            told.add(code)
    raise OSError(errno.ECONNREFUSED, f"the proxy answered {sorted(told)}")


@attempt("reach loopback through the proxy, in every spelling")
def loopback_by_proxy():
    port = VICTIMS["port"]
    hosts = (
        *("127.0.0.1", "127.1", "127.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433"),
        *("017700000001", "0177.0.0.1", "0.0.0.0", "0", "127.0.0.1.", "[::1]", "[::]"),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("localhost", "LOCALHOST", "localhost.", "127。0。0。1", "①②⑦.0.0.1", "%31%32%37.0.0.1"),
        *("user@127.0.0.1", "example.org@127.0.0.1"),
    )
    return by_proxy([f"{host}:{port}" for host in hosts])


@attempt("reach the metadata service through the proxy, in every spelling")
def metadata_by_proxy():
    return by_proxy(
        (
            *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376"),
            *("169.254.43518", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]"),
            *("[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "169.254.170.2", "100.100.100.200"),
        )
    )


@attempt("reach private networks and the master through the proxy")
def private_by_proxy():
    port = VICTIMS["port"]
    private = ("10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fc00::1]")
    return by_proxy([*private, f"{VICTIMS['address']}:{port}"])


# Limits: each of these gets a cell of its own.


@attempt("fork bomb")
def fork_bomb():
    born = 0
    try:
        while born < 2000:
            if os.fork() == 0:
                signal.pause()
                os._exit(0)
            born += 1
    except OSError as error:
        raise OSError(error.errno, f"after {born} processes") from None
    return f"{born} processes"


@attempt("thread bomb")
def thread_bomb():
    born = 0
    try:
        while born < 2000:
            threading.Thread(target=signal.pause, daemon=True).start()
            born += 1
    except RuntimeError:
        raise OSError(errno.EAGAIN, f"after {born} threads") from None
    return f"{born} threads"


@attempt("use more memory than allocated, in one process")
def memory_hog():
    held = []
    try:
        while len(held) < 300:
            held.append(b"\1" * (1 << 20))
            print(json.dumps({"held": len(held)}), flush=True)
    except MemoryError:
        raise OSError(errno.ENOMEM, f"after {len(held)} MB") from None
    return f"{len(held)} MB"


@attempt("use more memory than allocated, in several processes")
def memory_hogs():
    for _ in range(6):
        if os.fork() == 0:
            held = b"\1" * (50 << 20)
            time.sleep(5)
            os._exit(len(held) % 2)
    for _ in range(6):
        _, status = os.wait()
        if os.WIFSIGNALED(status):
            raise OSError(errno.ENOMEM, "a process was killed")
    return "300 MB"


@attempt("use more memory than allocated, in files of memory")
def memory_files():
    held = 0
    try:
        fd = os.memfd_create("x")
        while held < 300:
            os.write(fd, b"\1" * (1 << 20))
            held += 1
    except OSError as error:
        raise OSError(error.errno, f"after {held} MB") from None
    return f"{held} MB"


@attempt("fill the disk")
def disk_filler():
    written = 0
    try:
        for number in range(60):
            with open(f"large{number}", "wb") as file:
                for _ in range(4):
                    file.write(bytes(1 << 20))
                    written += 1
            time.sleep(0.02)
    except OSError as error:
        raise OSError(error.errno, f"after {written} MB") from None
    return f"{written} MB"


@attempt("fill the disk with empty files")
def file_filler():
    made = 0
    try:
        while made < 100_000:
            with open(f"f{made}", "w"):
                made += 1
    except OSError as error:
        raise OSError(error.errno, f"after {made} files") from None
    return f"{made} files"


@attempt("use up the machine's file descriptors")
def file_descriptors():
    held = []
    try:
        while len(held) < 20_000:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        raise OSError(error.errno, f"after {len(held)} files") from None
    return f"{len(held)} files"


@attempt("outlive the task: forked twice, in its own session, deaf to signals")
def outlive():
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            pathlib.Path("alive").touch()
            end = time.monotonic() + 30
            while time.monotonic() < end:
                time.sleep(0.1)
        os._exit(0)
    time.sleep(0.3)
    return "it lives on"  # whether it does is seen from outside


def main():
    for name in sys.argv[1:]:
        _, function = ATTEMPTS[name]
        try:
            told, held, number = function(), False, ""
        except OSError as error:
            told, held = str(error), True
            number = errno.errorcode.get(error.errno or 0, "")
        except Exception as error:
            told, held, number = f"{type(error).__name__}: {error}", False, ""
        print(json.dumps({"name": name, "held": held, "errno": number, "told": told}), flush=True)


if __name__ == "__main__":
    main()
