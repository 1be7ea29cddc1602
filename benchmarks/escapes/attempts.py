"""The attempts: small programs that try to get out, and how the host tells whether they did.

Each gets `facts` (see stage.py), `nr` (system call numbers by name), `call` (a raw system call; result, or minus errno)
and `escaped()`. An attempt succeeds if it calls `escaped`, prints the token, or changes what `changed` looks at.
"""

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from escapes.stage import Stage

PRELUDE = """
import ctypes, errno, json, os, socket, struct, sys, time
facts, nr = json.loads(sys.argv[1]), json.loads(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(name, *args):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(nr[name]), *words)
    return -ctypes.get_errno() if result < 0 else result
def escaped():
    print("ESCAPED", flush=True)
def read(path):
    with open(path, "rb") as file:
        print(file.read(4096).decode(errors="replace").replace("\\0", " "), flush=True)
def ask(address):
    s = socket.socket(socket.AF_UNIX); s.connect(address); print(s.recv(100).decode(), flush=True)
victim, harness, secret, precious = facts["victim"], facts["harness"], facts["secret"], facts["precious"]
"""


@dataclass(frozen=True)
class Attempt:
    """One way that might lead out."""

    name: str
    code: str
    changed: Callable[[Stage], bool] | None = None


def _precious_differs(stage: Stage) -> bool:
    path = stage.outside / "precious.txt"
    return not path.exists() or path.read_text() != "intact"


def _mode(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.lstat().st_mode
    return 0


def _set_id(stage: Stage) -> bool:
    return any(path.is_file() and _mode(path) & (stat.S_ISUID | stat.S_ISGID) for path in stage.work.iterdir())


def _victim_gone(stage: Stage) -> bool:
    with contextlib.suppress(Exception):
        stage.victim.wait(timeout=0.3)
    return stage.victim.poll() is not None


def _victim_stopped(stage: Stage) -> bool:
    state = Path(f"/proc/{stage.victim.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state in "Tt"


def _victim_file_limit(stage: Stage) -> bool:
    lines = Path(f"/proc/{stage.victim.pid}/limits").read_text().splitlines()
    return any(line.startswith("Max open files") and line.split()[3] == "77" for line in lines)


_FILES = [
    Attempt("read a file outside", "read(secret)"),
    Attempt("read through ..", "os.chdir(facts['work']); read('../outside/secret.txt')"),
    Attempt("read through a symlink", "l = facts['work'] + '/l'; os.symlink(secret, l); read(l)"),
    Attempt("read through /proc/1/root", "read('/proc/1/root' + secret)"),
    Attempt("read through a parent's root", "read(f'/proc/{os.getppid()}/root' + secret)"),
    Attempt("read through a process's folder", "read(f'/proc/{victim}/cwd/secret.txt')"),
    Attempt(
        "read through the harness's open files",
        "for fd in os.listdir(f'/proc/{harness}/fd'):\n"
        "    try:\n"
        "        link = f'/proc/{harness}/fd/{fd}'\n"
        "        if os.readlink(link) == secret: read(link)\n"
        "    except OSError: pass",
    ),
    Attempt("list a folder outside", "if 'secret.txt' in os.listdir(facts['outside']): escaped()"),
    Attempt("write a file outside", "open(precious, 'w').write('x')", _precious_differs),
    Attempt(
        "make a file outside",
        "open(facts['outside'] + '/new', 'w').close()",
        lambda stage: (stage.outside / "new").exists(),
    ),
    Attempt("make a folder outside", "os.mkdir(facts['outside'] + '/d')", lambda stage: (stage.outside / "d").exists()),
    Attempt("delete a file outside", "os.unlink(precious)", _precious_differs),
    Attempt("move a file in", "os.rename(precious, facts['work'] + '/p')", _precious_differs),
    Attempt("link a file in", "p = facts['work'] + '/s'; os.link(secret, p); read(p)"),
    Attempt("cut a file outside", "os.truncate(precious, 1)", _precious_differs),
    Attempt(
        "change a mode outside",
        "os.chmod(precious, 0o777)",
        lambda stage: _mode(stage.outside / "precious.txt") & 0o777 == 0o777,
    ),
    Attempt(
        "change times outside",
        "os.utime(precious, (5, 5))",
        lambda stage: (stage.outside / "precious.txt").stat().st_mtime == 5,
    ),
    Attempt(
        "set an attribute outside",
        "os.setxattr(precious, 'user.x', b'1')",
        lambda stage: "user.x" in os.listxattr(stage.outside / "precious.txt"),
    ),
    Attempt(
        "write a read-only mount",
        "open(facts['given'] + '/input.txt', 'w').write('x')",
        lambda stage: (stage.given / "input.txt").read_text() != "intact",
    ),
    Attempt(
        "open by handle",
        "h = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136); m = ctypes.c_int()\n"
        "if call('name_to_handle_at', -100, secret.encode(), h, ctypes.byref(m), 0) == 0:\n"
        "    fd = call('open_by_handle_at', os.open('/', os.O_RDONLY), h, 0)\n"
        "    if fd >= 0: print(os.read(fd, 100).decode())",
    ),
    Attempt(
        "watch names outside",
        "if libc.inotify_add_watch(libc.inotify_init(), facts['outside'].encode(), 0xfff) > 0: escaped()",
    ),
]

_PRIVILEGE = [
    Attempt(
        "setuid copy",
        "import shutil; p = facts['work'] + '/t'; shutil.copy('/usr/bin/true', p); os.chmod(p, 0o4755)",
        _set_id,
    ),
    Attempt("setuid at creation", "os.close(os.open(facts['work'] + '/u', os.O_CREAT | os.O_WRONLY, 0o4755))", _set_id),
    Attempt("setgid copy", "p = facts['work'] + '/g'; open(p, 'w').close(); os.chmod(p, 0o2755)", _set_id),
    Attempt("device node", "os.mknod(facts['work'] + '/n', 0o20666, os.makedev(1, 3)); escaped()"),
    Attempt(
        "file capability",
        "p = facts['work'] + '/c'; open(p, 'w').close()\n"
        "os.setxattr(p, 'security.capability', struct.pack('<5I', 0x2000001, 1 << 21, 0, 0, 0)); escaped()",
    ),
    Attempt(
        "keep capabilities", "s = open('/proc/self/status').read()\nif 'CapEff:\\t0000000000000000' not in s: escaped()"
    ),
    Attempt("shield from the OOM killer", "open('/proc/self/oom_score_adj', 'w').write('-900'); escaped()"),
    Attempt("raise own priority", "os.nice(-5); escaped()"),
    Attempt("raise an own limit", "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (99999, 99999)); escaped()"),
    Attempt(
        "leave the control group",
        "import glob\n"
        "for path in glob.glob('/sys/fs/cgroup/pids/cgroup.procs') + glob.glob('/sys/fs/cgroup/cgroup.procs'):\n"
        "    open(path, 'w').write(str(os.getpid())); escaped()",
    ),
]

_KERNEL = [
    Attempt("keyring: add", "k = call('add_key', b'user', b'overnight-test', b'x', 1, -3)\nif k >= 0: escaped()"),
    Attempt("keyring: look", "if call('keyctl', 0, -3, 1) >= 0: escaped()"),
    Attempt(
        "keyring: request", "if call('request_key', b'user', b'overnight-none', None, -3) not in (-1, -38): escaped()"
    ),
    Attempt("io_uring", "if call('io_uring_setup', 4, ctypes.create_string_buffer(120)) >= 0: escaped()"),
    Attempt(
        "bpf map",
        "if call('bpf', 0, ctypes.create_string_buffer(struct.pack('=5I', 2, 4, 4, 1, 0), 72), 72) >= 0: escaped()",
    ),
    Attempt("userfaultfd", "if call('userfaultfd', 0o2000000) >= 0: escaped()"),
    Attempt(
        "perf events",
        "a = ctypes.create_string_buffer(struct.pack('=IIQ', 1, 112, 0), 112)\n"
        "if call('perf_event_open', a, 0, -1, -1, 0) >= 0: escaped()",
    ),
    Attempt("kernel log", "if call('syslog', 3, ctypes.create_string_buffer(100), 100) >= 0: escaped()"),
    Attempt(
        "kernel addresses",
        "for line in open('/proc/kallsyms'):\n    if line.split()[0].strip('0'): escaped()\n    break",
    ),
    Attempt("personality", "if call('personality', 0x0040000) >= 0: escaped()"),
    Attempt(
        "mount, at no place",
        "if call('mount', b'none', b'/nonexistent/x', b'tmpfs', 0, None) not in (-1, -38): escaped()",
    ),
    Attempt("unmount, at no place", "if call('umount2', b'/nonexistent/x', 0) not in (-1, -38): escaped()"),
    Attempt(
        "pivot_root, to no place",
        "if call('pivot_root', b'/nonexistent/x', b'/nonexistent/x') not in (-1, -38): escaped()",
    ),
    Attempt("chroot", "if call('chroot', b'/') == 0: escaped()"),
    Attempt("new file system", "if call('fsopen', b'tmpfs', 1) >= 0: escaped()"),
    Attempt("open a mount tree", "if call('open_tree', -100, facts['work'].encode(), 1) >= 0: escaped()"),
    Attempt(
        "move a mount, of no place",
        "if call('move_mount', -100, b'/nonexistent/x', -100, b'/nonexistent/y', 0) not in (-1, -38): escaped()",
    ),
    Attempt("new user namespace", "if call('unshare', 0x10000000) == 0: escaped()"),
    Attempt("new mount namespace", "if call('unshare', 0x20000) == 0: escaped()"),
    Attempt(
        "clone into a user namespace",
        "pid = call('clone', 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nif pid > 0: escaped()",
    ),
    Attempt(
        "clone3 into a user namespace",
        "a = ctypes.create_string_buffer(struct.pack('=8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)\n"
        "pid = call('clone3', a, 64)\n"
        "if pid == 0: os._exit(0)\n"
        "if pid > 0: escaped()",
    ),
    Attempt(
        "enter a namespace of the host",
        "fd = os.open(f'/proc/{victim}/ns/net', os.O_RDONLY)\nif call('setns', fd, 0) == 0: escaped()",
    ),
    Attempt("swap, on no file", "if call('swapon', b'/nonexistent/x', 0) not in (-1, -38): escaped()"),
    Attempt("quota", "if call('quotactl', 0x800008 << 8, b'/nonexistent/x', 0, None) not in (-1, -38): escaped()"),
    Attempt("fanotify", "if call('fanotify_init', 0, 0) >= 0: escaped()"),
    Attempt("32-bit calls", "if nr['_x32'] and libc.syscall(ctypes.c_long(0x40000000 + 39)) > 0: escaped()"),
    Attempt("open a kernel setting for writing", "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); escaped()"),
    Attempt("open sysrq for writing", "os.open('/proc/sysrq-trigger', os.O_WRONLY); escaped()"),
    Attempt("open /sys for writing", "os.open('/sys/kernel/mm/transparent_hugepage/enabled', os.O_WRONLY); escaped()"),
    Attempt(
        "open a disk",
        "import glob\n"
        "for path in glob.glob('/dev/vd?') + glob.glob('/dev/sd?') + glob.glob('/dev/nvme?n?'):\n"
        "    os.open(path, os.O_RDONLY); escaped(); break",
    ),
    Attempt("open kernel memory", "os.open('/proc/kcore', os.O_RDONLY); escaped()"),
    Attempt(
        "type into a terminal",
        "import fcntl, pty, termios\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); _, slave = pty.openpty(); fcntl.ioctl(slave, termios.TIOCSCTTY, 0)\n"
        "    fcntl.ioctl(slave, termios.TIOCSTI, b'x'); escaped(); os._exit(0)\n"
        "os.wait()",
    ),
]

_PROCESSES = [
    Attempt(
        "see processes of the host",
        "if str(victim) in os.listdir('/proc') and b'-S' in open(f'/proc/{victim}/cmdline','rb').read(): escaped()",
    ),
    Attempt("read a command line", "read(f'/proc/{victim}/cmdline')"),
    Attempt("read an environment", "read(f'/proc/{victim}/environ')"),
    Attempt("read the harness's environment", "if open(f'/proc/{harness}/environ').read(1): escaped()"),
    Attempt(
        "read memory through /proc",
        "line = [l for l in open(f'/proc/{victim}/maps') if '[stack]' in l][0]\n"
        "start, end = (int(each, 16) for each in line.split()[0].split('-'))\n"
        "print(os.pread(os.open(f'/proc/{victim}/mem', os.O_RDONLY), end - start, start).decode(errors='replace'))",
    ),
    Attempt("kill a process", "os.kill(victim, 15)", _victim_gone),
    Attempt("kill through a pidfd", "import signal; signal.pidfd_send_signal(os.pidfd_open(victim), 9)", _victim_gone),
    Attempt("stop a process", "os.kill(victim, 19); time.sleep(0.1)", _victim_stopped),
    Attempt("trace a process", "if call('ptrace', 16, victim, 0, 0) == 0: escaped()"),
    Attempt(
        "trace a child",
        "pid = os.fork()\n"
        "if pid == 0: time.sleep(2); os._exit(0)\n"
        "if call('ptrace', 0x4206, pid, 0, 0) == 0: escaped()\n"
        "os.kill(pid, 9)",
    ),
    Attempt(
        "read another's memory",
        "b = ctypes.create_string_buffer(8); v = struct.pack('=QQ', ctypes.addressof(b), 8)\n"
        "line = [l for l in open(f'/proc/{victim}/maps') if ' r' in l][0]\n"
        "w = struct.pack('=QQ', int(line.split('-')[0], 16), 8)\n"
        "if call('process_vm_readv', victim, v, 1, w, 1, 0) == 8: escaped()",
    ),
    Attempt("take an open file", "if call('pidfd_getfd', os.pidfd_open(victim), 1, 0) >= 0: escaped()"),
    Attempt("compare kernel objects", "if call('kcmp', victim, victim, 1, 0, 0) >= 0: escaped()"),
    Attempt(
        "limit a process", "import resource as r; r.prlimit(victim, r.RLIMIT_NOFILE, (77, 77))", _victim_file_limit
    ),
    Attempt(
        "slow a process",
        "os.setpriority(os.PRIO_PROCESS, victim, 15)",
        lambda stage: os.getpriority(os.PRIO_PROCESS, stage.victim.pid) == 15,
    ),
    Attempt(
        "bind a process to a core",
        "os.sched_setaffinity(victim, {0})",
        lambda stage: os.sched_getaffinity(stage.victim.pid) == {0} and len(os.sched_getaffinity(0)) > 1,
    ),
]

_TALK = [
    Attempt(
        "TCP to loopback",
        "print(socket.create_connection(('127.0.0.1', facts['tcp_port']), 2).recv(100).decode())",
    ),
    Attempt(
        "UDP to loopback",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.sendto(b'out', ('127.0.0.1', facts['udp_port'])); time.sleep(0.2)",
        lambda stage: b"out" in stage.received,
    ),
    Attempt("abstract UNIX socket", "ask('\\0' + facts['abstract'])"),
    Attempt("UNIX socket outside", "ask(facts['outside'] + '/socket')"),
    Attempt("UNIX socket in the writable mount", "ask(facts['work'] + '/socket')"),
    Attempt("raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); escaped()"),
    Attempt("packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); escaped()"),
    Attempt(
        "netlink to the kernel's events",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15).bind((0, 1)); escaped()",
    ),
    Attempt("kernel crypto socket", "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0); escaped()"),
    Attempt("VM socket", "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0); escaped()"),
    Attempt(
        "System V shared memory",
        "libc.shmat.restype = ctypes.c_void_p; p = libc.shmat(facts['shm_id'], None, 0o10000)\n"
        "if p and p != 2**64 - 1: print(ctypes.string_at(p).decode())",
    ),
    Attempt("POSIX shared memory", "read('/dev/shm/' + facts['shm_name'])"),
    Attempt(
        "message queue",
        "b = ctypes.create_string_buffer(8192)\n"
        "if libc.mq_receive(libc.mq_open(facts['queue'].encode(), 0o4000), b, 8192, None) > 0: print(b.value.decode())",
    ),
    Attempt("read a variable of the harness", "print(os.environ.get('OVERNIGHT_ESCAPE_TOKEN', ''))"),
    Attempt(
        "use an inherited file",
        "for fd in range(3, 64):\n"
        "    try: os.lseek(fd, 0, 0); print(os.read(fd, 100).decode(errors='replace'))\n"
        "    except OSError: pass",
    ),
]

ATTEMPTS = (*_FILES, *_PRIVILEGE, *_KERNEL, *_PROCESSES, *_TALK)
