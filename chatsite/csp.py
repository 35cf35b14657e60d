"""Owns the content security policies: one for our pages, one for pages of libraries. Sets no header itself."""

ADMIN_PREFIX = "/admin/"
#: Django's admin, and the page that shows the OpenAPI document.
OF_LIBRARIES = (ADMIN_PREFIX, "/v1/docs")

# No remote images: model output must not be able to call out. Trusted Types: no string becomes HTML unseen.
PAGE = "; ".join(
    (
        "default-src 'none'",
        "script-src 'nonce-{nonce}' 'strict-dynamic' 'self'",
        "style-src 'self' 'nonce-{nonce}'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "media-src 'none'",
        "object-src 'none'",
        "frame-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
        # Ours, and the one Svelte makes for its compiled templates.
        "trusted-types app svelte-trusted-html",
    )
)

# These load their scripts without a nonce and write HTML.
LIBRARY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)


def policy(path: str, nonce: str) -> str:
    """The policy of the page at a path."""
    return LIBRARY if path.startswith(OF_LIBRARIES) else PAGE.format(nonce=nonce)
