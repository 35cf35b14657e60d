"""What every page says to the browser: one policy per response, nothing kept, nothing framed."""

import re

import pytest
from django.contrib.auth.models import User
from django_vite.core.asset_loader import DjangoViteAssetLoader, ManifestEntry

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.app.probe_urls")]


@pytest.fixture
def built(monkeypatch):
    """A front-end build with one entry, a style and a chunk."""
    manifest = DjangoViteAssetLoader.instance()._apps["default"].manifest
    entries = {
        "src/main.ts": ManifestEntry(file="assets/main-1.js", css=["assets/main-1.css"], imports=["_chunk.js"]),
        "_chunk.js": ManifestEntry(file="assets/chunk-1.js"),
    }
    monkeypatch.setattr(manifest, "_entries", entries)


@pytest.fixture
def unbuilt(monkeypatch):
    monkeypatch.setattr(DjangoViteAssetLoader.instance()._apps["default"].manifest, "_entries", {})


@pytest.fixture
def staff(page1):
    User.objects.filter(username="u1").update(is_staff=True, is_superuser=True)
    return page1


def directives(response):
    return dict(part.partition(" ")[::2] for part in response["Content-Security-Policy"].split("; "))


HTML = [
    ("/login/", 200),
    ("/login/used", 410),
    ("/nothing", 404),
    ("/nothing/%00", 404),
    ("/broken", 500),
    ("/", 200),
    ("/c/conv_1", 200),
    ("/admin/", 200),
    ("/admin/streaming/response/", 200),
    ("/admin/nothing/", 404),
    ("/v1/docs", 200),
]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(("path", "status"), HTML)
def test_every_page_has_a_policy_without_unsafe_anything(built, staff, settings, path, status, debug):
    settings.DEBUG = debug
    client = staff
    if path == "/login/":
        client.logout()
    response = client.get(path)
    assert response.status_code == status
    assert response["Content-Type"].startswith("text/html")
    policy = directives(response)
    assert "unsafe" not in response["Content-Security-Policy"]
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert "*" not in response["Content-Security-Policy"]
    assert "http" not in response["Content-Security-Policy"]


@pytest.mark.parametrize(("path", "status"), HTML[:7])
def test_our_pages_run_only_scripts_and_styles_with_this_answers_nonce(built, staff, path, status):
    if path == "/login/":
        staff.logout()
    nonces = set()
    for _ in range(2):
        response = staff.get(path)
        (nonce,) = set(re.findall(r"'nonce-([^']+)'", response["Content-Security-Policy"]))
        html = response.content.decode()
        for tag in re.findall(r"<(?:script|style)\b[^>]*>", html):
            assert f'nonce="{nonce}"' in tag or 'type="application/json"' in tag, tag
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", html)
        nonces.add(nonce)
    assert len(nonces) == 2
    policy = directives(response)
    assert policy["script-src"].startswith("'nonce-")
    assert "'strict-dynamic'" in policy["script-src"]
    assert policy["img-src"] == "'self' data: blob:"
    assert policy["require-trusted-types-for"] == "'script'"


def test_the_csrf_failure_page_has_the_policy_too(anon):
    response = anon.post("/login/", {"username": "x", "password": "y"})
    assert response.status_code == 403
    assert "'nonce-" in response["Content-Security-Policy"]


def test_an_oversized_form_and_an_unknown_host_are_answered_with_our_page(anon, page1, settings):
    response = page1.post("/login/", {"username": "x" * (settings.MAX_BODY_BYTES + 1)})
    assert response.status_code == 413
    assert "Content-Security-Policy" in response
    response = anon.get("/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert "Content-Security-Policy" in response


@pytest.mark.parametrize(
    "path", ["/", "/login/", "/admin/", "/api/me", "/api/nothing", "/v1/nothing", "/healthz", "/broken"]
)
def test_no_answer_is_kept_sniffed_or_lent(built, staff, path):
    response = staff.get(path)
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response["Cache-Control"]
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in response
    if not path.startswith("/v1"):
        assert response["Referrer-Policy"] == "same-origin"
        assert response["X-Frame-Options"] == "DENY"
        assert response["Cross-Origin-Opener-Policy"] == "same-origin"
        assert response["X-DNS-Prefetch-Control"] == "off"
        assert "camera=()" in response["Permissions-Policy"]


def test_the_shell_carries_the_token_the_boot_data_and_the_build(built, page1):
    html = page1.get("/c/<!--<script><b>").content.decode()
    assert re.search(r'<meta name="csrf-token" content="\w{64}">', html)
    assert '<script id="boot" type="application/json">' in html
    assert "<!--<script>" not in html
    assert "<b>" not in html
    assert "assets/main-1.js" in html
    assert "assets/main-1.css" in html


def test_without_a_build_the_page_says_what_to_run(unbuilt, page1):
    response = page1.get("/")
    assert response.status_code == 503
    assert "make run" in response.content.decode()


def test_https_only_redirects_and_pins(anon, settings):
    settings.SECURE_SSL_REDIRECT, settings.SECURE_HSTS_SECONDS = True, 31_536_000
    response = anon.get("/login/?next=/")
    assert (response.status_code, response["Location"]) == (301, "https://testserver/login/?next=/")
    assert anon.get("/healthz").status_code == 200
    assert anon.get("/login/", headers={"host": "evil.example"}).status_code == 400
    assert "max-age=31536000" in anon.get("/login/", secure=True)["Strict-Transport-Security"]
