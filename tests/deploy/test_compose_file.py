"""compose.yaml: sound by the specification's own schema, hardened everywhere, and true of this checkout. About 4 s."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from streaming.management import vllm_worker
from tests.child import ROOT
from tests.deploy import files

SERVICES = files.compose()["services"]
ONE_SHOTS = {"setup", "engine-row", "engine-cpu-row"}
WEB = ["web-1", "web-2", "web-3"]
OURS = {name for name, service in SERVICES.items() if service["image"].startswith("chatsite-web")}
UNIT_S = {"s": 1, "m": 60}


def seconds(text):
    return int(text[:-1]) * UNIT_S[text[-1]]


def test_the_file_is_what_the_specification_says():
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(files.COMPOSE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_is_root_writes_its_own_disk_gains_rights_or_takes_all_of_the_machine(name):
    service = SERVICES[name]
    assert int(service["user"].split(":")[0]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["logging"]["options"]["max-size"]
    assert "privileged" not in service
    assert re.fullmatch(r"[\w/.-]+:[\w.-]+", service["image"])
    assert not service["image"].endswith(":latest")
    if name in ONE_SHOTS:
        assert service["restart"].startswith("on-failure")
    else:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"]
        assert "stop_grace_period" in service


def test_only_nginx_can_be_reached_from_outside():
    networks = files.compose()["networks"]
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"nginx"}
    assert {name for name, service in SERVICES.items() if "network_mode" in service} == set()
    open_ones = {name for name, network in networks.items() if not network.get("internal")}
    assert open_ones == {"front"}
    assert {name for name, service in SERVICES.items() if open_ones & set(service["networks"])} == {"nginx"}
    assert set(SERVICES["nginx"]["networks"]).isdisjoint({"data", "engines"})
    for name in ("postgres", "valkey"):
        assert SERVICES[name]["networks"] == ["data"]
    for name in ("engine", "engine-cpu"):
        assert SERVICES[name]["networks"] == ["engines"]


def test_every_setting_is_known_and_every_secret_comes_from_a_file():
    known = files.settings_known()
    assert {"SECRET_KEY", "DRAIN_S", "WEB_PROCESSES"} <= known
    declared = set(files.compose()["secrets"])
    for name in OURS:
        environment = SERVICES[name]["environment"]
        assert {variable.removesuffix("_FILE") for variable in environment} <= known
        given = {secret["source"] if isinstance(secret, dict) else secret for secret in SERVICES[name]["secrets"]}
        read = {value.removeprefix("/run/secrets/") for key, value in environment.items() if key.endswith("_FILE")}
        assert read == given <= declared
    whole = files.COMPOSE.read_text()
    assert not re.search(r"(PASSWORD|SECRET_KEY|TOKEN)\w*(?<!_FILE): ", whole)
    assert not re.search(r"://[^/\s]*:[^/\s]*@", whole)


def test_any_other_setting_can_be_given_in_a_file_that_need_not_be_there_and_is_in_no_commit_and_no_image():
    for name in OURS:
        assert SERVICES[name]["env_file"] == [{"path": "site.env", "required": False}]
    assert {name for name, service in SERVICES.items() if "env_file" in service} == OURS
    assert "/site.env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "!site.env" not in (ROOT / "deploy" / "Dockerfile.dockerignore").read_text()


def test_a_web_process_is_given_longer_than_it_drains_and_counts_as_one_of_three():
    from chatsite.server.limits import EXIT_MARGIN_S

    for name in WEB:
        service = SERVICES[name]
        drain_s = int(service["environment"]["DRAIN_S"])
        assert seconds(service["stop_grace_period"]) > drain_s + EXIT_MARGIN_S
        assert int(service["environment"]["WEB_PROCESSES"]) == len(WEB)
    listed = re.findall(r"server ([\w-]+):(\d+) ", (ROOT / "deploy/compose/nginx-upstream.conf").read_text())
    assert [name for name, _ in listed] == WEB
    assert {port for _, port in listed} == {SERVICES["web-1"]["command"][-1]}


def test_what_is_mounted_from_the_checkout_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source == "./models":  # a person's
                continue
            assert (ROOT / source).is_file() if source.startswith("./") else source in files.compose()["volumes"]


def test_what_a_service_waits_for_is_there_and_can_become_so():
    for name, service in SERVICES.items():
        for other, wish in service.get("depends_on", {}).items():
            if wish["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for ever"
            if wish["condition"] == "service_completed_successfully":
                assert other in ONE_SHOTS
            assert "profiles" not in SERVICES[other] or SERVICES[other]["profiles"] == service["profiles"]


def commands_of_django():
    for name in sorted(OURS):
        words = SERVICES[name]["command"]
        text = " ".join(words)
        for command in re.findall(r"manage\.py ([^&]+)", text):
            yield name, command.split()


@pytest.mark.parametrize(("name", "words"), [*commands_of_django(), ("engine-cpu", None)])
def test_a_command_and_its_options_exist(name, words):
    words = words or list(files.stages()["engine-cpu"].command[2:])
    command = load_command_class(get_commands()[words[0]], words[0])
    command.create_parser("manage.py", words[0]).parse_args(words[1:])


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_celery_is_started_as_the_procfile_does(name):
    (line,) = re.findall(rf"^{name}: \S+ -m (.*)$", (ROOT / "Procfile").read_text(), re.MULTILINE)
    ours = " ".join(SERVICES[name]["command"]).removeprefix("python -m ")
    # Beside other processes on one screen Celery leaves its banner out.
    said = line.replace("celery -q ", "celery ")
    assert ours.replace("/tmp/celerybeat-schedule", '"${DATA_DIR:-var}/celerybeat-schedule"') == said
    assert importlib.import_module("chatsite.celery").app


def test_a_health_check_asks_what_there_is(client):
    asked = re.search(r"127\.0\.0\.1:8000(/\w+)", " ".join(SERVICES["web-1"]["healthcheck"]["test"]))[1]
    assert client.get(asked).status_code != 404
    nginx = SERVICES["nginx"]["healthcheck"]["test"][-1].removeprefix("http://127.0.0.1")
    assert f"location = {nginx} " in (ROOT / "deploy/nginx.conf").read_text()


def test_nginx_has_what_its_configuration_names():
    text = (ROOT / "deploy/nginx.conf").read_text()
    service = SERVICES["nginx"]
    mounted = {volume.split(":")[1] for volume in service["volumes"]}
    assert {"/etc/nginx/nginx.conf", "/etc/nginx/nginx-upstream.conf", "/srv/chatsite/static"} == mounted
    for secret in service["secrets"]:
        assert secret["target"] in text
    assert "pid /run/" in text
    version = re.fullmatch(r"nginx:(\d+)\.(\d+)-alpine", service["image"])
    assert (int(version[1]), int(version[2])) >= (1, 28)  # resolve in an upstream


def test_what_a_person_may_set_is_told():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert {name for name in files.variables() if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("script", ["make-secrets.sh", "roll.sh"])
def test_the_scripts_parse_and_name_services_that_there_are(script):
    path = ROOT / "deploy" / "compose" / script
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0
    named = re.findall(r"for web in (.*); do|run --rm (\w+)|--no-deps (worker beat)", path.read_text())
    assert {word for match in named for words in match for word in words.split()} <= set(SERVICES)


def test_the_engine_is_told_what_run_engine_tells_it():
    options = {"model": "/models/chat", "host": "0.0.0.0", "port": 8000, "slots": 64, "context": 8192}
    argv = vllm_worker.arguments(Path("/"), {**options, "cpu": False, "engine_args": ""})
    said = {word.split("=")[0] for word in SERVICES["engine"]["command"]}
    assert said == {word for word in argv if word.startswith("--")}
