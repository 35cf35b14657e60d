"""Owns whom the provider knows: two people, and the site as its client. Known words are the tests'."""

PASSWORD = "correct horse battery"
#: RFC 6749, section 2.3.1, has them encoded on the way: what needs it is here, as generated secrets have it.
CLIENT_ID, CLIENT_SECRET = "chat", "s3cret/with+signs%41&:"


def move_in(redirect_uri: str) -> None:
    """At the first start; later ones find them as they are by then."""
    from django.contrib.auth.models import User  # no models before Django is set up
    from oauth2_provider.models import Application

    if User.objects.exists():
        return
    for name in ("ann", "bob"):
        User.objects.create_user(name, f"{name}@example.org", PASSWORD)
    Application.objects.create(
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        algorithm=Application.RS256_ALGORITHM,
        redirect_uris=redirect_uri,
        name="The chat",
    )
