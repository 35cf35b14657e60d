"""Owns the settings of the provider: the toolkit's defaults but for what stands here. Its data is in a folder."""

import os
from pathlib import Path

FOLDER = Path(os.environ["TOOLKIT_FOLDER"])

SECRET_KEY = "of a provider that is thrown away"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.toolkit_provider.urls"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "provider.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
    "tests.toolkit_provider",  # its templates
]
# Tables as the models say: a hundred steps of migrations would be most of the start.
MIGRATION_MODULES = dict.fromkeys(("auth", "contenttypes", "sessions", "oauth2_provider"))
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
LOGIN_URL = "/accounts/login/"

OAUTH2_PROVIDER = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": (FOLDER / "signs.pem").read_text(),
    "OIDC_RSA_PRIVATE_KEYS_INACTIVE": [path.read_text() for path in sorted(FOLDER.glob("signed*.pem"))],
    "OAUTH2_VALIDATOR_CLASS": "tests.toolkit_provider.claims.Validator",
    "SCOPES": {"openid": "Who you are", "email": "Your address", "profile": "Your name"},
    # RFC 9207: who answers is said in the answer.
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"log": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["log"], "level": "WARNING"},
}
