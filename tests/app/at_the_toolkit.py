"""Owns the toolkit's provider as a process behind TLS, and the steps of a browser at its forms. Judges nothing."""

import os
import socket
import sqlite3
import ssl
import sys
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
from joserfc.jwk import RSAKey

from tests.child import Child
from tests.e2e import certificate
from tests.toolkit_provider.people import PASSWORD

#: What the site of Django's test client calls its way back.
WAY_BACK = "http://testserver/login/oidc/back/"


class Toolkit:
    """The provider. Its socket listens through every restart, so that its address stays."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.certificate = certificate.throw_away(folder)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.issuer = f"https://127.0.0.1:{self.port}/o"
        self._turns = 0
        self.make_key()

    def make_key(self):
        (self.folder / "signs.pem").write_bytes(RSAKey.generate_key(2048).as_pem(private=True))

    def start(self):
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.toolkit_provider.settings"}
        env["TOOLKIT_FOLDER"] = str(self.folder)
        fd = self.listening.fileno()
        argv = [sys.executable, "-m", "tests.toolkit_provider", str(fd), WAY_BACK]
        self.child = Child(argv, env, self.folder / "log", pass_fds=[fd])
        self.child.line_with("Started server process")  # whoever connects now waits in the backlog

    def stop(self):
        self.child.end()

    def close(self):
        self.stop()
        self.listening.close()

    def turn_keys(self):
        """As its manual has it: a new key signs, the old one is still shown."""
        self._turns += 1
        (self.folder / "signs.pem").rename(self.folder / f"signed-{self._turns}.pem")
        self.make_key()
        self.stop()
        self.start()

    def switch(self, name, is_active):
        """Whether a person there may log in, as its own admin would write it."""
        with closing(sqlite3.connect(self.folder / "provider.sqlite3", timeout=10)) as database, database:
            changed = database.execute("UPDATE auth_user SET is_active = ? WHERE username = ?", (is_active, name))
            assert changed.rowcount == 1


class Form(HTMLParser):
    """The fields of a page's one form, and the buttons that have a name."""

    def __init__(self, page):
        super().__init__()
        self.fields, self.buttons = {}, {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "input" and "name" in found:
            kind = self.buttons if found.get("type") == "submit" else self.fields
            kind[found["name"]] = found.get("value", "")


class Browser:
    """Of one person, with the cookies that the provider gave them."""

    def __init__(self, toolkit):
        trusted = ssl.create_default_context(cafile=toolkit.certificate.chain)
        self.web = httpx.Client(verify=trusted, timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.web.close()

    def comes_to(self, address):
        """The page there, or wherever the provider itself leads."""
        answer = self.web.get(address)
        while answer.is_redirect and self._is_there(answer.headers["Location"]):
            answer = self.web.get(urljoin(str(answer.url), answer.headers["Location"]))
        return answer

    def logs_in(self, page, name, password=PASSWORD):
        """The page that comes after the provider's login form."""
        answer = self.sends(page, username=name, password=password)
        return self.comes_to(urljoin(str(answer.url), answer.headers["Location"])) if answer.is_redirect else answer

    def sends(self, page, **typed):
        """A form of the provider, filled in; browsers name the page that it stood on."""
        fields = {**Form(page.text).fields, **typed}
        return self.web.post(str(page.url), data=fields, headers={"Referer": str(page.url)})

    def agrees(self, page):
        """The way back to the site, after the provider's question."""
        return self.way_back(self.sends(page, allow=Form(page.text).buttons["allow"]))

    def cancels(self, page):
        return self.way_back(self.sends(page))

    def goes_through(self, address, name="ann"):
        """From the site's address at the provider to the site's way back: form, question, yes."""
        page = self.comes_to(address)
        if "password" in Form(page.text).fields:
            page = self.logs_in(page, name)
        return self.agrees(page)

    def _is_there(self, address):
        return not address.startswith(WAY_BACK)

    def way_back(self, answer):
        assert answer.status_code == 302, answer.text
        back = urlsplit(answer.headers["Location"])
        assert answer.headers["Location"].startswith(WAY_BACK)
        return f"{back.path}?{back.query}"
