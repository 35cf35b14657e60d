"""Owns every setting: read from the environment, with a default and the unit in the name."""

from datetime import timedelta
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from chatsite import database, logs, openid, valkey
from chatsite.environment import (
    env,
    env_count,
    env_flag,
    env_float,
    env_list,
    env_period,
    own_address,
    secret_key,
    with_password,
)

BASE_DIR = Path(__file__).resolve().parent.parent
#: A hundred years: what is kept for longer is kept for ever, which is 0.
DAYS_MAX = 36_500

DATA_DIR = Path(env("DATA_DIR", str(BASE_DIR / "var"))).resolve()
DEBUG = env_flag("DEBUG", False)

SECRET_KEY = secret_key(env("SECRET_KEY"), DATA_DIR)
SECRET_KEY_FALLBACKS = env_list("SECRET_KEY_FALLBACKS", "")
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS", "")

INSTALLED_APPS = [
    "daphne",
    "chatsite.admin_config.ChatAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_vite",
    "ninja",  # the files of the page /v1/docs, which otherwise come from elsewhere
    "channels",
    "axes",
    "streaming",
]

# The API has no session: what serves pages does not run for /v1/ (chatsite/middleware.py).
MIDDLEWARE = [
    "chatsite.middleware.security_headers",
    "streaming.api.anthropic_messages.in_their_words",
    "chatsite.middleware.json_errors",
    "streaming.api.refusals.recorder",
    "chatsite.middleware.Session",
    "chatsite.middleware.Common",
    "chatsite.middleware.Csrf",
    "chatsite.middleware.Authentication",
    "chatsite.middleware.Messages",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "chatsite.urls"
ASGI_APPLICATION = "chatsite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "chatsite" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASE_LIMITS = database.LIMITS
# PgBouncer passes them on to nobody: there the role has them, from ``migrate`` on.
DATABASE_POOLER = env_flag("DATABASE_POOLER", False)
DATABASES = database.databases(
    env("DATABASE_URL"),
    env("DATABASE_PASSWORD"),
    DATA_DIR,
    timeout_s=env_float("DATABASE_TIMEOUT_S", 10),
    pooled=DATABASE_POOLER,
)

# Valkey carries doorbells, the Celery broker and the cache. Without it one process still serves.
VALKEY_URL = with_password(env("VALKEY_URL"), env("VALKEY_PASSWORD"))
VALKEY_CA_FILE = env("VALKEY_CA_FILE")
CHANNEL_LAYERS = valkey.channel_layers(VALKEY_URL, VALKEY_CA_FILE, env_list("VALKEY_ENCRYPTION_KEYS", ""))
CACHES = valkey.caches(VALKEY_URL, VALKEY_CA_FILE)

CELERY_BROKER_URL = VALKEY_URL or "memory://"
CELERY_BROKER_USE_SSL = valkey.broker_ssl(VALKEY_URL, VALKEY_CA_FILE)
TASK_TIME_LIMIT_S = env_float("TASK_TIME_LIMIT_S", 240)
TASK_VISIBILITY_S = env_float("TASK_VISIBILITY_S", 300)
if TASK_VISIBILITY_S <= TASK_TIME_LIMIT_S:
    raise ImproperlyConfigured(
        f"TASK_VISIBILITY_S must be above TASK_TIME_LIMIT_S ({TASK_TIME_LIMIT_S:g} s), not {TASK_VISIBILITY_S:g}:"
        " a task would be given to a second worker while the first is still at it"
    )
CELERY_TASK_TIME_LIMIT = TASK_TIME_LIMIT_S
CELERY_TASK_SOFT_TIME_LIMIT = 0.9 * TASK_TIME_LIMIT_S
CELERY_TASK_DEFAULT_QUEUE = "tasks"
CELERY_TASK_ROUTES = {name: {"queue": "titles"} for name in ("streaming.make_title", "streaming.work_batches")}
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": TASK_VISIBILITY_S,
    # s between looks for messages that a killed worker left; the default throttle makes it ten times that.
    "unacked_restore_interval": max(1, min(10, TASK_VISIBILITY_S / 10)),
    "unacked_restore_throttle": 1,
    "queue_order_strategy": "priority",
    # A Valkey that is gone without a word is noticed.
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "socket_timeout": 30,
}
# A message goes when its task is done: what was killed half-way is done again, and every task bears that.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_MAX_MEMORY_PER_CHILD = int(env_float("TASK_MEMORY_MB", 300) * 1024)
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_RESULT_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "chatsite.formats"
TIME_ZONE = "UTC"
USE_TZ = True
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "streaming.store.sign_in.PeopleBackend"]
# Wrong logins: of a name from an address, and of an address. What counts them: streaming/views/login_tries.py.
LOGIN_TRIES = env_count("LOGIN_TRIES", 5, most=10_000)
LOGIN_TRIES_PER_ADDRESS = env_count("LOGIN_TRIES_PER_ADDRESS", 50, most=1_000_000)
AXES_COOLOFF_TIME = timedelta(seconds=env_count("LOGIN_WAIT_S", 300, most=86_400))
AXES_FAILURE_LIMIT = LOGIN_TRIES
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_HANDLER = "streaming.views.login_tries.LoginTries"
AXES_CLIENT_IP_CALLABLE = "streaming.audit.address.limited_address"
AXES_LOCKOUT_CALLABLE = "streaming.views.login_tries.too_many"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken"]
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
#: off, open (anybody makes an account), invite (whoever has an invitation does).
SIGNUP = env("SIGNUP", "off")
if SIGNUP not in {"off", "open", "invite"}:
    raise ImproperlyConfigured(f"SIGNUP must be off, open or invite, not {SIGNUP!r}")
# One OpenID provider, where OIDC_ISSUER names it. What is wrong with these is said at the start.
OIDC_ISSUER = env("OIDC_ISSUER")
OIDC_CLIENT_ID = env("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env("OIDC_CLIENT_SECRET")
OIDC_SCOPES = env("OIDC_SCOPES", "openid email profile").split()
OIDC_LABEL = env("OIDC_LABEL", "Log in with your organization")
OIDC_ACCOUNTS = env("OIDC_ACCOUNTS", "off")
OIDC_DOMAINS = [domain.lower() for domain in env_list("OIDC_DOMAINS", "")]
OIDC_CA_FILE = env("OIDC_CA_FILE")
OIDC_TIMEOUT_S = env_period("OIDC_TIMEOUT_S", 5)
openid.check(OIDC_ISSUER, (OIDC_CLIENT_ID, OIDC_CLIENT_SECRET), OIDC_SCOPES, OIDC_ACCOUNTS, OIDC_DOMAINS)
#: Off: nobody logs in, makes an account or gets in anew by a password; one-time links still work.
PASSWORD_LOGIN = env_flag("PASSWORD_LOGIN", True)
if not PASSWORD_LOGIN and (not OIDC_ISSUER or SIGNUP != "off"):
    raise ImproperlyConfigured("PASSWORD_LOGIN=0 needs OIDC_ISSUER, and SIGNUP=off: who signs up chooses a password")
# Mail, which only the reset of passwords sends. Without a host there is none, and the page says whom to ask.
EMAIL_HOST = env("EMAIL_HOST")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"
EMAIL_PORT = env_count("EMAIL_PORT", 587, most=65_535)
EMAIL_HOST_USER = env("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env("EMAIL_HOST_PASSWORD")
EMAIL_USE_SSL = env_flag("EMAIL_USE_SSL", False)
EMAIL_USE_TLS = env_flag("EMAIL_USE_TLS", True) and not EMAIL_USE_SSL
EMAIL_TIMEOUT = env_count("EMAIL_TIMEOUT_S", 10, most=600)
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env("EMAIL_FROM", "webmaster@localhost")
PASSWORD_RESET_TIMEOUT = env_count("PASSWORD_RESET_S", 3600, most=604_800)
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
FRONTEND_DIST = BASE_DIR / "frontend" / "dist"
STATICFILES_DIRS = [FRONTEND_DIST] if FRONTEND_DIST.exists() else []
DJANGO_VITE = {"default": {"dev_mode": False, "manifest_path": FRONTEND_DIST / "manifest.json"}}

# Security
SESSION_ENGINE = "streaming.store.session_rows"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
HTTPS_ONLY = env_flag("HTTPS_ONLY", False)
# Only behind a proxy that ends TLS and sets or strips this header itself; else a client could claim HTTPS.
if env_flag("TRUST_FORWARDED_PROTO", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
# Other sites learn nothing. Not "no-referrer": forms and beacons would say "Origin: null", which CSRF refuses.
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "streaming.views.failures.csrf_failed"
# These three look for Django's class names in MIDDLEWARE; chatsite/middleware.py does the same work.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]
#: What Prometheus must show to read /metrics; without one nobody may.
METRICS_TOKEN = env("METRICS_TOKEN")
if METRICS_TOKEN and len(METRICS_TOKEN) < 16:
    raise ImproperlyConfigured("METRICS_TOKEN must have at least 16 characters")
ADMIN_SHOWS_TEXT = env_flag("ADMIN_SHOWS_TEXT", False)
MAX_BODY_BYTES = int(env_float("MAX_BODY_BYTES", 2 * 1024 * 1024))
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# Files for batches, and what batches write: of one, of one user, and for how long.
BATCH_FILE_BYTES = env_count("BATCH_FILE_BYTES", 16 * 1024 * 1024, most=2**30)
BATCH_FILE_LINES = env_count("BATCH_FILE_LINES", 10_000, most=1_000_000)
FILES_BYTES_PER_USER = env_count("FILES_BYTES_PER_USER", 256 * 1024 * 1024, most=2**50)
FILE_TTL_DAYS = env_float("FILE_TTL_DAYS", 30, most=DAYS_MAX)
NO_STORE_FILE_S = env_float("NO_STORE_FILE_S", 86_400)
BATCHES_PER_USER = env_count("BATCHES_PER_USER", 20, most=100_000)
BATCHES_AT_ONCE = env_count("BATCHES_AT_ONCE", 1, most=100)
BATCH_LINES_AT_ONCE = env_count("BATCH_LINES_AT_ONCE", 8, most=1000)

# The life of a stream; units are in the names.
EARLY_HEADERS_S = env_float("EARLY_HEADERS_S", 2)
HEARTBEAT_S = env_period("HEARTBEAT_S", 15)
QUEUE_TIMEOUT_S = env_float("QUEUE_TIMEOUT_S", 30)
TTFT_TIMEOUT_S = env_float("TTFT_TIMEOUT_S", 120)
IDLE_TIMEOUT_S = env_float("IDLE_TIMEOUT_S", 30)
TOTAL_TIMEOUT_S = env_float("TOTAL_TIMEOUT_S", 1800)
STUCK_READER_S = env_float("STUCK_READER_S", 60)
REQUEST_TIMEOUT_S = env_float("REQUEST_TIMEOUT_S", 30)
STORAGE_PATIENCE_S = env_float("STORAGE_PATIENCE_S", 10)
SYNCHRONOUS_EVENTS = env_flag("SYNCHRONOUS_EVENTS", True)
STOP_PROOF_S = env_float("STOP_PROOF_S", 2)
DRAIN_S = env_float("DRAIN_S", 20)
ENGINE_DRAIN_S = env_float("ENGINE_DRAIN_S", 60)
TAIL_KEEP_S = env_float("TAIL_KEEP_S", 60)
TITLES = env_flag("TITLES", True)
SITE_URL = env("SITE_URL", own_address(env("HOST", "127.0.0.1"), env("PORT", "8000"))).rstrip("/")
LOG_TTL_DAYS = env_float("LOG_TTL_DAYS", 30, most=DAYS_MAX)
CONVERSATION_TTL_DAYS = env_float("CONVERSATION_TTL_DAYS", 0, most=DAYS_MAX)
#: Off: what is said on the page is erased NO_STORE_KEEP_S after a conversation's last answer.
PAGE_STORE = env_flag("PAGE_STORE", True)
NO_STORE_KEEP_S = env_float("NO_STORE_KEEP_S", 60)
PAGE_GRACE_S = env_float("PAGE_GRACE_S", 30)
PAGEHIDE_GRACE_S = env_float("PAGEHIDE_GRACE_S", 5)
MAX_GRACE_S = env_float("MAX_GRACE_S", 3600)
UNATTENDED_TOKENS = int(env_float("UNATTENDED_TOKENS", 4096))
#: The tools that the page offers to its models, by name (streaming/tools); none: an empty PAGE_TOOLS.
PAGE_TOOLS = env_list("PAGE_TOOLS", "calculate,current_time,search_conversations")
TOOL_ROUNDS_MAX = env_count("TOOL_ROUNDS_MAX", 5, most=100)
TOOL_CALLS_MAX = env_count("TOOL_CALLS_MAX", 8, most=100)
TOOL_TIMEOUT_S = env_period("TOOL_TIMEOUT_S", 10)
TOOL_OUTPUT_BYTES = env_count("TOOL_OUTPUT_BYTES", 16_384, most=1024 * 1024, least=256)
BEAT_S = env_period("BEAT_S", 2)
DEAD_S = env_float("DEAD_S", 10)
SWEEP_S = env_period("SWEEP_S", 5)
CREDENTIAL_CHECK_S = env_period("CREDENTIAL_CHECK_S", 5)
STOP_POLL_S = env_period("STOP_POLL_S", 0.3)
FOLLOW_POLL_S = env_period("FOLLOW_POLL_S", 0.3)
MAX_STREAMS = int(env_float("MAX_STREAMS", 2000))
MAX_STREAMS_PER_USER = int(env_float("MAX_STREAMS_PER_USER", 500))
MAX_READERS_PER_RESPONSE = int(env_float("MAX_READERS_PER_RESPONSE", 64))
MAX_READERS_PER_USER = int(env_float("MAX_READERS_PER_USER", 1000))
#: Pages that are told of changes: sockets of the process, and of one user in it.
MAX_SOCKETS = int(env_float("MAX_SOCKETS", 5000))
MAX_SOCKETS_PER_USER = int(env_float("MAX_SOCKETS_PER_USER", 20))
LIST_POLL_S = env_period("LIST_POLL_S", 5)
MAX_QUEUED_PER_ENGINE = int(env_float("MAX_QUEUED_PER_ENGINE", 100))
#: Web processes that share the engines: each uses its part of every engine's slots.
WEB_PROCESSES = int(env_float("WEB_PROCESSES", 1))
MAX_OUTPUT_TOKENS = int(env_float("MAX_OUTPUT_TOKENS", 8192))
#: Of an answer: several times what its tokens can say, for who counts them is the engine.
MAX_OUTPUT_BYTES = int(env_float("MAX_OUTPUT_BYTES", 256 * MAX_OUTPUT_TOKENS))
REJECTED_ROWS_PER_MINUTE = int(env_float("REJECTED_ROWS_PER_MINUTE", 60))
WEBHOOKS_TO_PRIVATE = env_flag("WEBHOOKS_TO_PRIVATE", False)
SHARED_THREADS = int(env_float("SHARED_THREADS", 6))

#: line: for people. json: for programs, without any text of users and models, and a line for each response's end.
LOG_FORMAT = env("LOG_FORMAT", "line")
if LOG_FORMAT not in {"line", "json"}:
    raise ImproperlyConfigured(f"LOG_FORMAT must be line or json, not {LOG_FORMAT!r}")
LOGGING = logs.logging(LOG_FORMAT, env("LOG_LEVEL", "INFO"))
