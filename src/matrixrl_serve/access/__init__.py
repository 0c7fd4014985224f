"""Who may do what: tokens and their scopes."""

from matrixrl_serve.access.tokens import SCOPES, Access, TokenRecord, create_token, list_tokens, revoke_token

__all__ = ["SCOPES", "Access", "TokenRecord", "create_token", "list_tokens", "revoke_token"]
