"""Every setting can stand in a file that NAME_FILE names, as containers are given secrets. Costs about 1 s."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from streaming.engine.api_key import key_of

KEY = "k" * 50


def test_secrets_come_from_files_and_passwords_go_into_the_addresses(settings_with):
    files = {"SECRET_KEY": f"{KEY}\n", "DATABASE_PASSWORD": "p@ss/word\n", "VALKEY_PASSWORD": "a b:c@d", "DRAIN_S": "7"}
    read = settings_with(
        files, DATABASE_URL="postgresql://chatsite@postgres/chatsite", VALKEY_URL="redis://chatsite@valkey:6379/0"
    )
    database = read["DATABASES"]["default"]
    assert read["SECRET_KEY"] == KEY
    assert (database["USER"], database["PASSWORD"], database["HOST"]) == ("chatsite", "p@ss/word", "postgres")
    assert read["CELERY_BROKER_URL"] == "redis://chatsite:a%20b%3Ac%40d@valkey:6379/0"
    assert read["DRAIN_S"] == 7


def test_a_whole_address_may_be_the_secret(settings_with):
    read = settings_with({"DATABASE_URL": "postgresql://u:secret@h/n", "VALKEY_URL": "redis://:p@h:1/0"})
    assert read["DATABASES"]["default"]["PASSWORD"] == "secret"
    assert read["VALKEY_URL"] == "redis://:p@h:1/0"


def test_a_setting_that_is_set_twice_or_cannot_be_read_is_one_clear_line(settings_with):
    with pytest.raises(ImproperlyConfigured, match=r"^HEARTBEAT_S and HEARTBEAT_S_FILE are both set: only one may be$"):
        settings_with({"HEARTBEAT_S": "1"}, HEARTBEAT_S="2")


def test_a_file_that_is_not_there_is_named_with_its_setting(settings_with):
    with pytest.raises(ImproperlyConfigured, match=r"^SECRET_KEY_FILE: /nowhere/key cannot be read: .*No such file"):
        settings_with(SECRET_KEY_FILE="/nowhere/key")


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_is_no_password_less_site(settings_with, content):
    with pytest.raises(ImproperlyConfigured, match=r"^VALKEY_PASSWORD_FILE: .* is empty; to leave VALKEY_PASSWORD "):
        settings_with({"VALKEY_PASSWORD": content}, VALKEY_URL="redis://valkey:6379/0")


def test_a_file_without_an_end_is_not_read_to_it(settings_with):
    with pytest.raises(ImproperlyConfigured, match=r"^SECRET_KEY_FILE: /dev/zero has more than 65536 bytes$"):
        settings_with(SECRET_KEY_FILE="/dev/zero")


def test_a_mark_of_an_editor_is_no_part_of_a_secret(settings_with):
    assert settings_with({"SECRET_KEY": f"\ufeff{KEY}\r\n"})["SECRET_KEY"] == KEY


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("LOG_TTL_DAYS", "-1", r"a number from 0 to 36500, not '-1'"),
        ("LOG_TTL_DAYS", "1e9", r"a number from 0 to 36500, not '1e9'"),
        ("CONVERSATION_TTL_DAYS", "inf", r"a number from 0 to 36500, not 'inf'"),
        ("MAX_STREAMS", "inf", r"a number from 0 to 1e\+12, not 'inf'"),
        ("DRAIN_S", "nan", r"a number from 0 to 1e\+12, not 'nan'"),
        ("BEAT_S", "0", r"at least 0.01 s, not 0"),
        ("LOGIN_TRIES", "0", r"a whole number from 1 to 10000, not 0"),
        ("LOGIN_TRIES_PER_ADDRESS", "0.5", r"a whole number from 1 to 1000000, not 0.5"),
        ("LOGIN_WAIT_S", "1e12", r"a number from 0 to 86400, not '1e12'"),
        ("TOOL_ROUNDS_MAX", "0", r"a whole number from 1 to 100, not 0"),
        ("TOOL_OUTPUT_BYTES", "255", r"a whole number from 256 to 1048576, not 255"),
        ("TOOL_TIMEOUT_S", "0", r"at least 0.01 s, not 0"),
        ("SIGNUP", "yes", r"off, open or invite, not 'yes'"),
        ("STOP_POLL_S", "-0.3", r"a number from 0 to 1e\+12, not '-0.3'"),
    ],
)
def test_a_number_that_would_break_what_it_sets_is_told_at_the_start(settings_with, name, value, says):
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} must be {says}$"):
        settings_with(**{name: value})


def test_a_bad_number_in_a_file_is_told_like_any_other(settings_with):
    with pytest.raises(ImproperlyConfigured, match=r"^DRAIN_S must be a number, not 'soon'$"):
        settings_with({"DRAIN_S": "soon"})


def test_an_engines_key_may_be_in_a_file_too(monkeypatch, tmp_path, caplog):
    (tmp_path / "key").write_text("sk-1\n")
    monkeypatch.setenv("HOSTED_API_KEY_FILE", str(tmp_path / "key"))
    assert key_of({"api_key_env": "HOSTED_API_KEY"}) == "sk-1"
    monkeypatch.setenv("HOSTED_API_KEY_FILE", str(tmp_path / "gone"))
    assert key_of({"api_key_env": "HOSTED_API_KEY"}) == ""
    assert "HOSTED_API_KEY_FILE cannot be read" in caplog.text
