"""Headers of a page that is served: nothing from elsewhere, nothing inline, no frame."""

from __future__ import annotations

__all__ = ["CONTENT_POLICY", "PAGE_HEADERS"]

# Plotly saves an image of a chart through data: and blob: addresses.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer of a server that serves one page."""
