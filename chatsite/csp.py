"""Owns the content security policies: one for our pages, one for Django's admin. Sets no header itself."""

ADMIN_PREFIX = "/admin/"

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

# Django's admin loads its scripts without a nonce, and its jQuery writes HTML.
ADMIN = "; ".join(
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
    return ADMIN if path.startswith(ADMIN_PREFIX) else PAGE.format(nonce=nonce)
