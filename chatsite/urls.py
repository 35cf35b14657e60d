"""Owns which path leads where. Answers nothing itself."""

from django.contrib import admin
from django.urls import path

from streaming.api.root import page, v1
from streaming.views import health, login, metrics, openid, pages, password_reset, ready, shared, signup

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", ready.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("v1/", v1.urls),
    path("api/", page.urls),
    path("", pages.shell, name="shell"),
    path("c/<str:conversation_id>", pages.shell, name="conversation"),
    path("s/<str:token>", shared.shared, name="shared"),
    path("login/", login.login_form, name="login"),
    path("login/oidc/", openid.begin, name="openid"),
    path("login/oidc/back/", openid.back, name="openid_back"),
    path("login/<str:token>", login.login_link, name="login_link"),
    path("signup/", signup.signup, name="signup"),
    path("signup/<str:token>", signup.signup, name="invitation"),
    path("password-reset/", password_reset.ask, name="password_reset"),
    path("password-reset/sent/", password_reset.sent, name="password_reset_done"),
    path("password-reset/done/", password_reset.done, name="password_reset_complete"),
    path("password-reset/<uidb64>/<token>/", password_reset.choose, name="password_reset_confirm"),
    path("logout/", login.logout, name="logout"),
    path("admin/", admin.site.urls),
]

handler400 = "streaming.views.failures.bad_request"
handler403 = "streaming.views.failures.forbidden"
handler404 = "streaming.views.failures.not_found"
handler500 = "streaming.views.failures.server_error"
