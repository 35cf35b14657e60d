"""An OpenID provider that others wrote, django-oauth-toolkit behind TLS, as a process of its own for tests.

Nothing of the site is imported here: the two meet on the wire only.
"""
