"""The command line in many processes with one import of it, which takes a second or more.

`forked` runs a command in a process that is forked from one that has imported the command line. It has its own streams,
directory and exit code; what differs from a command that is started is that modules are imported already.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path


class CommandServer:
    """Runs commands in processes that are forked from one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, *args: str, of: str = "matrixrl", cwd: Path | str | None = None, path: Sequence[Path | str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; arguments as in `forked`."""
        with tempfile.TemporaryDirectory() as folder:
            streams = [f"{folder}/{name}" for name in ("stdout", "stderr")]
            order = {
                "of": of,
                "args": args,
                "cwd": str(cwd or Path.cwd()),
                "path": [*map(str, path)],
                "streams": streams,
            }
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            written = [Path(stream).read_text(encoding="utf-8") for stream in streams]
        return subprocess.CompletedProcess(list(args), code, *written)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


@cache
def _server() -> CommandServer:
    server = CommandServer()
    atexit.register(server.close)
    return server


def forked(
    *args: str, of: str = "matrixrl", cwd: Path | str | None = None, path: Sequence[Path | str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run ``matrixrl`` with some arguments, and return its exit code and what it wrote.

    Args:
        args: Arguments of the command.
        of: Package whose `__main__` is run: `matrixrl`, or one of the directory ``benchmarks``.
        cwd: Its current directory, which is not on the import path by itself; that of this process by default.
        path: Directories on the import path.
    """
    return _server().run(*args, of=of, cwd=cwd, path=path)


def _play(order: dict) -> int:
    """Run one command in this process, which was forked for it, and return its exit code."""
    os.chdir(order["cwd"])
    sys.path[:0] = order["path"]
    for number, path in enumerate(order["streams"], start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [order["of"], *order["args"]]
    try:
        import_module(f"{order['of']}.__main__").main()
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # as the interpreter does at the end of a process
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _serve() -> None:
    sys.path[0] = str(Path(__file__).parents[1] / "benchmarks")  # in place of the directory of this file
    import matrixrl.cli.main  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            answers.close()
            os._exit(_play(json.loads(line)))
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
