"""Files of pages on a real server: whose they are, how large they may be, and which pages may be open."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.server_util import AUTH_COOKIE_NAME
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from core import open_learner
from dashboard.server import MOST_UPLOADED
from tests.bench.servers import free_port
from tests.bench.visitor import Visitor
from tests.dashboard.signed_in import ISSUER, SECRET, auth_file, claims
from tests.journeys.conftest import Come
from tests.journeys.server import Served, armscope, serving
from tests.journeys.world import ARMS, run_lines

N_HANDLES: Final = 96
N_LOADS: Final = 100
ALLOWED: Final = 9
OUTSIDE: Final = ("pyproject.toml", "app.py", "auth.toml", "etc/passwd")
PARTS: Final = ("..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "....//..", ".%00./..")
ROUTES: Final = ("static", "media", "component", "component/x", "_stcore/bidi-components/x", "app/static")


@dataclass
class Page:
    """An open page of a person, by its web socket; with the downloads that it offers."""

    socket: ClientConnection
    session: str = ""
    offered: frozenset[str] = frozenset()

    def ask(self, name: str = "") -> None:
        """Request a page."""
        request = BackMsg()
        request.rerun_script.page_name = name
        self.socket.send(request.SerializeToString())

    def draw(self, name: str = "") -> None:
        """Have a page drawn."""
        self.ask(name)
        self.wait()

    def wait(self) -> None:
        """Read what was requested, to its end."""
        for answer in self._answers():
            self.session = answer.new_session.initialize.session_id or self.session
            self.offered |= {answer.delta.new_element.download_button.deferred_file_id} - {""}
            if answer.WhichOneof("type") == "script_finished":
                return

    def download(self, file: str) -> str:
        """Have an offered file made; its address, or the error."""
        request = BackMsg()
        request.backend_operation_request.request_id = file
        request.backend_operation_request.session_id = self.session
        request.backend_operation_request.deferred_file.file_id = file
        self.socket.send(request.SerializeToString())
        for answer in self._answers():
            if answer.WhichOneof("type") == "backend_operation_response":
                made = answer.backend_operation_response
                return str(made.deferred_file.url or made.error_msg)
        raise AssertionError("unreachable")

    def _answers(self) -> Iterator[ForwardMsg]:
        while True:
            raw, answer = self.socket.recv(timeout=120), ForwardMsg()
            assert isinstance(raw, bytes)
            answer.ParseFromString(raw)
            yield answer


def ask(
    served: Served,
    path: str,
    method: str = "GET",
    body: bytes | Iterable[bytes] | None = None,
    **headers: str,
) -> tuple[int, str, str]:
    """Status, text, and the cookie that is set."""
    place = urlsplit(served.url).netloc
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Origin": f"http://{place}", **named})
        answer = connection.getresponse()
        text = answer.read().decode("latin-1")
        return answer.status, text, (answer.getheader("set-cookie") or "").partition(";")[0]
    finally:
        connection.close()


@contextmanager
def opened(served: Served, cookie: str = "", *, is_drawn: bool = True) -> Iterator[Page]:
    """A page, by default one that is drawn."""
    place = urlsplit(served.url).netloc
    xsrf = ask(served, "/_stcore/health", Cookie=cookie)[2]
    offered = [Subprotocol(one) for one in ("streamlit", xsrf.partition("=")[2])]
    with connect(
        f"ws://{place}/_stcore/stream",
        origin=Origin(f"http://{place}"),
        subprotocols=offered,
        additional_headers={"Cookie": f"{cookie}; {xsrf}"},
        max_size=None,
    ) as socket:
        page = Page(socket)
        if is_drawn:
            page.draw()
        yield page


def put(
    served: Served,
    session: str,
    cookie: str = "",
    *,
    method: str = "PUT",
    is_chunked: bool = False,
    size: int = 2,
    declared: int | None = None,
) -> int:
    """Upload a file into a session, as its page does."""
    xsrf = ask(served, "/_stcore/health", Cookie=cookie)[2]
    body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f.jsonl"\r\n\r\n'
    body += b"a" * size + b"\r\n--x--\r\n"
    headers = {
        "Cookie": f"{cookie}; {xsrf}",
        "X_Xsrftoken": xsrf.partition("=")[2],
        "Content_Type": "multipart/form-data; boundary=x",
    }
    if declared is not None:
        headers["Content_Length"] = str(declared)
    path = f"/_stcore/upload_file/{session}/{uuid4()}"
    return ask(served, path, method, iter([body]) if is_chunked else body, **headers)[0]


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard without sign-in, on a system that grants few handles."""
    with serving(tmp_path_factory.mktemp("near"), run_lines(ARMS, 10), n_handles=N_HANDLES) as server:
        yield server


@pytest.mark.long
def test_many_pages_are_answered_with_few_handles(near: Served) -> None:
    """However many were opened and closed before."""
    for _ in range(N_LOADS):
        with urlopen(near.url, timeout=20) as page:
            assert page.status == 200
        with Visitor(near.url, "posteriors"):  # fails where the page is not drawn
            pass
    assert "Too many open files" not in (near.folder / "serve.log").read_text()


def test_pages_are_bounded_refused_in_words_and_given_back(near: Served) -> None:
    with ExitStack() as leaving:
        for _ in range(ALLOWED):
            leaving.enter_context(opened(near))
        with pytest.raises(InvalidStatus) as refusal, opened(near):
            pass
        answer = refusal.value.response
        assert (answer.status_code, answer.body) == (503, b"Too many pages are open. Close some.\n")
        assert answer.headers["retry-after"] == "10"
        status, text, _ = ask(near, "/runs", Accept="text/html")
        assert status == 503
        assert f"keeps {ALLOWED} pages open" in text
        assert ask(near, "/livez")[0] == ask(near, "/_stcore/health")[0] == 200
    with opened(near):
        assert ask(near, "/runs", Accept="text/html")[0] == 200
    assert "Too many open files" not in (near.folder / "serve.log").read_text()


def test_uploads_are_bounded_and_of_open_pages_only(near: Served) -> None:
    with opened(near) as page:
        assert put(near, page.session) == 204
        assert put(near, str(uuid4())) == 400, "no such page"
        assert put(near, page.session, declared=MOST_UPLOADED // 2 + 1) == 413
        assert put(near, page.session, is_chunked=True) == 411
        assert put(near, page.session) == 204, "what was refused takes no room"
    assert put(near, page.session) == 400


def test_no_path_leads_out_of_a_folder(near: Served) -> None:
    start = ask(near, "/static/nothing")[1]  # Streamlit's page for all that isn't there
    for route in ROUTES:
        for part in PARTS:
            for depth in (1, 3, 6):
                for name in OUTSIDE:
                    path = f"/{route}/{'/'.join([part] * depth)}/{name}"
                    status, text, _ = ask(near, path)
                    assert status in {400, 403, 404} or text == start, path
        assert ask(near, f"/{route}//etc/passwd")[1].count("root:") == 0


@pytest.mark.long
def test_two_hundred_pages_at_once_keep_no_probe_waiting_and_their_memory_is_given_back(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, run_lines(ARMS, 40)) as server:
        with opened(server):
            pass
        before = memory_mib(server)
        peaks, waits_s = list[float](), list[float]()
        for _ in range(2):
            with ExitStack() as leaving:
                pages = [leaving.enter_context(opened(server, is_drawn=False)) for _ in range(200)]
                for page in pages:
                    page.ask()
                for page in pages:
                    for path in ("/livez", "/healthz", "/runs"):
                        began = time.perf_counter()
                        assert ask(server, path, Accept="text/html")[0] == 200
                        waits_s.append(time.perf_counter() - began)
                    page.wait()
                peaks.append(memory_mib(server))
                if len(peaks) == 2:
                    assert put(server, pages[0].session, size=50 << 20) == 204
        assert memory_mib(server) - peaks[1] > 40, "the upload waits for its page to come back"
        time.sleep(150)  # longer than Streamlit keeps closed pages
        after = memory_mib(server)
        sys.stdout.write(
            f"before {before:.0f}, peaks {peaks}, after {after:.0f} MiB; waits {max(waits_s):.3f} s\n"
        )
        assert max(waits_s) < 1
        assert max(peaks) - before < 96
        assert after - before < 64


def memory_mib(served: Served) -> float:
    """The server's memory."""
    (pid,) = (
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and str(served.database).encode() in _command_of(entry)
    )
    (kib,) = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("ascii"), re.MULTILINE)
    return int(kib) / 1024


def _command_of(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on which two operators and a viewer sign in."""
    folder, port = tmp_path_factory.mktemp("far"), free_port()
    with open_learner(folder / "journey.db") as learner:
        lines = folder / "runs.jsonl"
        lines.write_bytes(run_lines(ARMS, 3))
        learner.import_files(lines)
    for name, role in (("ada", "operator"), ("bo", "operator"), ("cy", "viewer")):
        who = ("--issuer", ISSUER, "--subject", f"u-{name}", "--role", role)
        armscope(folder / "journey.db", "member", "add", name, *who)
    auth = auth_file(folder, redirect_uri=f"http://localhost:{port}/oauth2callback")
    with serving(folder, None, "--port", str(port), auth=auth) as server:
        yield server


def cookie_of(served: Served, name: str) -> str:
    """The cookie of a person who has signed in."""
    said = json.dumps({"origin": served.url, **claims(f"u-{name}")})
    return f"{AUTH_COOKIE_NAME}={create_signed_value(SECRET, AUTH_COOKIE_NAME, said).decode()}"


def test_a_file_is_its_persons_alone(far: Served) -> None:
    ada, bo = cookie_of(far, "ada"), cookie_of(far, "bo")
    with opened(far, ada) as page, opened(far, bo) as other:
        page.draw("audit")
        other.draw("audit")
        (offered, *_) = page.offered
        file = page.download(offered)
        assert ask(far, file, Cookie=ada)[0] == 200
        assert [ask(far, file)[0], ask(far, file, Cookie=bo)[0]] == [401, 404]
        assert ask(far, f"{file.partition('.')[0]}.x", Cookie=bo)[0] == 404
        again = other.download(offered)  # with an id that is ada's
        assert ask(far, again, Cookie=bo)[0] == 404
        assert put(far, page.session, ada) == 204
        for method in ("PUT", "DELETE"):
            assert put(far, page.session, bo, method=method) == 404
            assert put(far, page.session, method=method) == 401
        assert put(far, other.session, bo) == 204
        own = other.download(next(iter(other.offered)))
        assert ask(far, own, Cookie=bo)[0] == 200, "the same bytes, and now theirs, too"


def test_a_viewer_uploads_nothing(far: Served) -> None:
    cy = cookie_of(far, "cy")
    with opened(far, cy) as page:
        assert put(far, page.session, cy) == 403
        assert put(far, page.session, cy, declared=1 << 28) == 403, "before its bytes have come"


def test_an_export_is_saved_whole(come: Come, served: Served, tmp_path: Path) -> None:
    visit = come(served).open("data")
    visit.page.get_by_role("button", name="Make the export").click()
    with visit.page.expect_download() as fetched:
        visit.page.get_by_role("button", name="Save the zip").click()
    fetched.value.save_as(tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
        (file,) = manifest["files"]
        assert hashlib.sha256(zipped.read(file["name"])).hexdigest() == file["sha256"]
    assert manifest["runs"] == 40
