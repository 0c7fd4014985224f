"""What the command line calls."""

from matrixrl.service.access import create_token, list_tokens, revoke_token
from matrixrl.service.http.server import serve
from matrixrl.service.log import EventLog
from matrixrl.service.log_replay import replay
from matrixrl.service.problem import read_problem

__all__ = ["EventLog", "create_token", "list_tokens", "read_problem", "replay", "revoke_token", "serve"]
