"""Owns an OpenID provider on the loopback for tests: honest by default, and lying or hanging where a test says so."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

ID, SECRET = "chat", "s3cret/with+signs"


@cache
def first_key():
    """The one that every provider begins with: making one takes a while."""
    return RSAKey.generate_key(2048)


class Provider:
    """Whoever comes is ``person``; ``claims`` are put over those of the token, None takes one away."""

    def __init__(self):
        self.person = {"sub": "ann-1", "preferred_username": "ann", "email": "ann@example.org", "email_verified": True}
        self.claims, self.header, self.answer, self.document = {}, {}, {}, {}
        self.asked = Counter()
        self.codes = {}
        self.status = 200
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.in_userinfo = ()
        self.key, self.alg, self.kid = first_key(), "RS256", "first"
        self.other_keys = []

    def turn_keys(self, kind="RSA"):
        make = {"RSA": lambda: RSAKey.generate_key(2048), "EC": lambda: ECKey.generate_key("P-256")}[kind]
        self.key, self.alg = make(), {"RSA": "RS256", "EC": "ES256"}[kind]
        self.kid = secrets.token_hex(4)

    @property
    def keys(self):
        named = {"kid": self.kid} if self.kid else {}
        return {"keys": [*self.other_keys, self.key.as_dict(private=False) | {"use": "sig"} | named]}

    def describe(self):
        there = {name: f"{self.issuer}/{path}" for name, path in (
            ("authorization_endpoint", "authorize"), ("token_endpoint", "token"), ("jwks_uri", "keys"),
            ("userinfo_endpoint", "userinfo"),
        )}  # fmt: skip
        return {"issuer": self.issuer, **there, **self.document}

    def authorize(self, asked):
        """Back to the site with a code; nobody is asked for a password here."""
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", ID, "S256")
        code = secrets.token_urlsafe(16)
        self.codes[code] = (asked, dict(self.person))
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], **self.answer})}"

    def redeem(self, form, authorization):
        asked, person = self.codes.pop(form.get("code"), (None, None))
        if authorization != "Basic " + base64.b64encode(f"{ID}:{quote_plus(SECRET)}".encode()).decode():
            return 401, {"error": "invalid_client"}
        challenge = _base64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": person["sub"], "token_type": "Bearer", "id_token": self.token(asked, person)}

    def token(self, asked, person):
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **person}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        claims = {name: value for name, value in claims.items() if name not in self.in_userinfo}
        header = {"alg": self.alg, "kid": self.kid} | self.header
        header = {name: value for name, value in header.items() if value is not None}
        if header["alg"] == "none":
            return f"{_signed_part(header, claims)}."
        if header["alg"] == "HS256":  # the mistake of those who take whatever key for whatever algorithm
            part = _signed_part(header, claims)
            return f"{part}.{_base64(hmac.digest(self.key.as_pem(private=False), part.encode(), 'sha256'))}"
        return jwt.encode(header, claims, self.key, algorithms=[self.alg])


def _signed_part(header, claims):
    return ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))


def _base64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Handler(BaseHTTPRequestHandler):
    """The provider's routes."""

    provider: Provider

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer({name: values[0] for name, values in parse_qs(body).items()})

    def answer(self, form):
        provider, parts = self.provider, urlsplit(self.path)
        what = parts.path.rpartition("/")[2]
        provider.asked[what] += 1
        provider.goes_on.wait(60)
        if provider.status != 200:
            return self.send(provider.status, b"<h1>gateway</h1>")
        if what == "authorize":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            return self.send(302, b"", Location=provider.authorize(asked))
        status, said = {
            "openid-configuration": lambda: (200, provider.describe()),
            "keys": lambda: (200, provider.keys),
            "token": lambda: provider.redeem(form, self.headers["Authorization"]),
            "userinfo": lambda: (200, provider.person),
        }[what]()
        return self.send(status, said if isinstance(said, bytes) else json.dumps(said).encode())

    def send(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Quiet."""


@contextmanager
def running():
    """The provider, listening."""
    provider = Provider()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"provider": provider}))
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        provider.goes_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
