"""Who may do what: tokens and their scopes, and limits."""

from matrixrl.service.access.rates import RateLimit
from matrixrl.service.access.tokens import SCOPES, Access, TokenRecord, create_token, list_tokens, revoke_token

__all__ = ["SCOPES", "Access", "RateLimit", "TokenRecord", "create_token", "list_tokens", "revoke_token"]
