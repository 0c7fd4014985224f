"""Who may do what: tokens and their scopes, and limits."""

from matrixrl_serve.access.rates import RateLimit
from matrixrl_serve.access.tokens import SCOPES, Access, TokenRecord, create_token, list_tokens, revoke_token

__all__ = ["SCOPES", "Access", "RateLimit", "TokenRecord", "create_token", "list_tokens", "revoke_token"]
