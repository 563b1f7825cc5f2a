"""Client: a learner of a server, asked over HTTP; the methods, answers and errors are those of `Learner`.

>>> client = Client("http://127.0.0.1:8502", token="arms_…", learner="support")
>>> client.name
'support'
>>> client.close()
"""

from __future__ import annotations

import shutil
import tarfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Final, Self, TypeVar, Unpack, overload
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from urllib3.util import Retry, Timeout

from core.doors.answering import Answering, RunOptions, arm_of
from core.doors.http.refusals import TooMany
from core.doors.running import RunUnderWay
from core.errors import ArmscopeError, InvalidBatch, InvalidInput, StoreError, UnreadableSource
from core.flows.export import new_file
from core.flows.importing import ImportAnswer
from core.flows.queries import EnvironmentSeen, EpisodeSeen, JudgedArm, Status
from core.flows.training import MANIFEST_END
from core.records.answers import (
    BackupAnswer,
    EpisodeMarked,
    EraseAnswer,
    RecordAnswer,
    ResetAnswer,
    ScaleAnswer,
    SettingAnswer,
    StepAnswer,
    UndoAnswer,
)
from core.records.arm import ArmType
from core.records.batch import BatchAnswer, BatchLine
from core.records.episode import EpisodeOptions, ScaleOptions, StepOptions
from core.records.episode_credit import CreditAnswer, CreditRule
from core.records.evaluation import EvaluationOutcome
from core.records.judgement import JudgedPosterior
from core.records.judging import EvaluationAnswer, JudgingOptions
from core.records.learner import LearnerSettings
from core.records.note import NoteAnswer
from core.records.observation import RewardOutcome
from core.records.parameters import ExportFormat
from core.records.reset import Target
from core.records.reward import RewardAnswer
from core.records.run import Phase, Run, Unit
from core.records.selection import Selection
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingManifest, TrainingOptions
from core.settings import DEFAULT_LEARNER

_T = TypeVar("_T")
_RETRIES: Final = 5
_BACKOFF_S: Final = 0.2
_AGAIN: Final = (429, 502, 503, 504)
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 120.0
_IMPORT_S: Final = 3_600.0
"""So long an import may take, or the beginning of what is read out whole."""
_PIECE: Final = 1 << 16
_SHOWN: Final = 1_000

Document = dict[str, Any]
"""An answer as the commands' ``--json`` has it, where it is no record of its own."""


class Unreachable(StoreError):
    """Whoever should answer doesn't, or what answers is no armscope."""

    code = "unreachable"


class Client(Answering):
    """One learner of a server. Safe to share between threads.

    What fails on the way is sent again, with pauses, up to five times, under the id it had: a run's uid, a key that
    is made where none is given. So it counts once.
    """

    def __init__(self, url: str, token: str | None = None, *, learner: str = DEFAULT_LEARNER) -> None:
        super().__init__()
        self.name = learner
        self._root = f"{url.rstrip('/')}/api/v1"
        self._place = f"{self._root}/learners/{quote(learner, safe='')}"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(maxsize=16, timeout=Timeout(connect=_CONNECT_S, read=_ANSWER_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    # What an agent does

    @overload
    def run(self, arms: None = None, /, **options: Unpack[RunOptions]) -> RunUnderWay[str]: ...

    @overload
    def run(self, arms: Iterable[_T], /, **options: Unpack[RunOptions]) -> RunUnderWay[_T]: ...

    def run(
        self, arms: Iterable[_T] | None = None, /, **options: Unpack[RunOptions]
    ) -> RunUnderWay[_T] | RunUnderWay[str]:
        """Answer one request, as `Learner.run`: chooses when its ``with`` block begins, records when it ends."""
        return self._under_way(arms, options)

    def select(
        self, arms: Iterable[object] | None = None, *, budget_tokens: int | None = None, k: int | None = None
    ) -> Selection:
        """Choose the arms of the next prompt among those offered (None = all that are known)."""
        offered = None if arms is None else [arm_of(arm) for arm in arms]
        asked = {"arms": offered, "budget_tokens": budget_tokens, "k": k}
        return self._offered(self._act("select", asked, Selection), offered)

    def _recorded(self, run: Run, *, ended_now: bool) -> RecordAnswer:
        return self._act("runs", {"run": run, "ended_now": ended_now}, RecordAnswer)

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def record_runs(self, runs: Iterable[Run]) -> list[RecordAnswer]:
        """Record many runs, each by itself; those that can't be are named by `InvalidBatch`, and the others stand."""
        body = b"".join(msgspec.json.encode({"run": run}) + b"\n" for run in runs)
        told = self._asked("POST", f"{self._place}/runs:batch", body, kind="application/x-ndjson")
        lines = [msgspec.json.decode(line) for line in told.splitlines()]
        bad = {line["line"]: error_of(line) for line in lines if not line["ok"]}
        if bad:
            raise InvalidBatch(
                f"{len(bad):,} of {len(lines):,} runs could not be recorded; the others are.",
                next_step="Correct them and send them again; lines says what is wrong with each.",
                lines=bad,
            )
        return [msgspec.convert(line, RecordAnswer) for line in lines]

    def record_step(self, episode: str, **said: Unpack[StepOptions]) -> StepAnswer:
        """Record one answer of an environment; with its ``number`` it counts once, however often it is sent."""
        return self._act("steps", {"episode": episode, **said}, StepAnswer)

    def mark_incomplete(self, episode: str, **said: Unpack[EpisodeOptions]) -> EpisodeMarked:
        """Say of an episode that not everything that its environment answered could be written."""
        return self._act("episodes:incomplete", {"episode": episode, **said}, EpisodeMarked)

    # What people do

    def declare(self, environment: str, **said: Unpack[ScaleOptions]) -> ScaleAnswer:
        """Declare on what scale an environment pays; what is left out stays as it is in force."""
        return self._act("scales", {"environment": environment, **said}, ScaleAnswer)

    def credit_episode(self, uid: str, rule: CreditRule) -> CreditAnswer:
        """Credit what an episode was worth to arms of its runs."""
        return self._act("credits", {"uid": uid, "rule": rule}, CreditAnswer)

    def reward(
        self,
        arm: str,
        value: float | None = None,
        *,
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        run: str | None = None,
        correct: bool = False,
        key: str | None = None,
        create: bool = False,
    ) -> RewardAnswer:
        """Give a lagged reward from 0 to 1; with ``run`` and ``correct`` it replaces the automatic one."""
        asked = {"arm": arm, "value": value, "outcome": outcome, "reason": reason, "run": run}
        more = {"correct": correct, "create": create, "key": _key(key)}
        return self._act("rewards", {**asked, **more}, RewardAnswer)

    def reward_batch(
        self, rewards: Iterable[BatchLine | Mapping[str, object]], *, key: str | None = None
    ) -> BatchAnswer:
        """Give many lagged rewards as one act: all of them or none, and one id takes all of it back."""
        return self._act("rewards:together", {"rewards": list(rewards), "key": _key(key)}, BatchAnswer)

    def reward_run(
        self,
        run: str,
        value: float | None = None,
        *,
        outcome: RewardOutcome | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> BatchAnswer:
        """Give every arm that was in a run's prompt the same reward from 0 to 1, as one act."""
        asked = {"run": run, "value": value, "outcome": outcome, "reason": reason, "key": _key(key)}
        return self._act("rewards", asked, BatchAnswer)

    def evaluate(
        self,
        subject: str,
        outcome: EvaluationOutcome,
        **said: Unpack[JudgingOptions],
    ) -> EvaluationAnswer:
        """Judge a layer (``kairos://layer/{uuid}``), an execution, a run, or one ``arm`` of a run."""
        asked = {"subject": subject, "outcome": outcome, **said, "key": _key(said.get("key"))}
        return self._act("evaluations", asked, EvaluationAnswer)

    def note(self, arm: str, text: str, *, key: str | None = None) -> NoteAnswer:
        """Write a note about an arm; it moves no number."""
        return self._act("notes", {"arm": arm, "text": text, "key": _key(key)}, NoteAnswer)

    def reset(
        self,
        *,
        arms: Sequence[str] | None = None,
        types: Sequence[ArmType] | None = None,
        target: Target = "uniform",
        reason: str | None = None,
        key: str | None = None,
    ) -> ResetAnswer:
        """Start arms again (no scope = all); nothing is deleted. An empty scope is refused with `InvalidInput`."""
        for name, scope in (("arms", arms), ("types", types)):
            if scope is not None and not scope:
                raise InvalidInput(
                    f"{name} must name at least one, got none; nothing was reset.",
                    next_step=f"Leave {name} out to start every arm again.",
                )
        asked = {"arms": arms or (), "types": types or (), "target": target, "reason": reason}
        return self._act("resets", {**asked, "key": _key(key)}, ResetAnswer)

    def undo(self, act_id: str | None) -> UndoAnswer:
        """Take a reward, reset, import, setting, note or undo back."""
        return self._act("undo", {"act_id": act_id}, UndoAnswer)

    def redo(self, act_id: str | None) -> UndoAnswer:
        """Let an undone act stand again."""
        return self._act("redo", {"act_id": act_id}, UndoAnswer)

    def change(self, name: str, value: object) -> SettingAnswer:
        """Put a setting in force."""
        body = msgspec.json.encode({"value": value})
        told = self._asked("PUT", f"{self._place}/settings/{quote(name, safe='')}", body)
        return msgspec.json.decode(told, type=SettingAnswer)

    # What is to be read

    @property
    def settings(self) -> LearnerSettings:
        """Settings in force."""
        return self._look("settings", LearnerSettings)

    def posteriors(self) -> list[JudgedPosterior]:
        """What is believed of every arm, and what is to be said of it, sorted by id."""
        return [msgspec.convert(item, JudgedPosterior) for item in self._items("posteriors")]

    def arms(self) -> list[JudgedArm]:
        """Every arm with what it costs, its prior and what was seen of it, sorted by id."""
        return [msgspec.convert(item, JudgedArm) for item in self._items("arms")]

    def runs(self, limit: int = 50) -> list[Document]:
        """The latest runs, newest first."""
        return list(self._items("runs", at_most=limit))

    def evaluations(self, limit: int = 50) -> list[Document]:
        """The latest evaluations, the latest first."""
        return list(self._items("evaluations", at_most=limit))

    def acts(self, limit: int = 50) -> list[Document]:
        """Who changed what, the latest first."""
        return list(self._items("acts", at_most=limit))

    def why(self, uid: str) -> Document:
        """Why each arm was in a run's prompt or left out, and what came of it; raises `UnknownRun`."""
        return self._look(f"runs/{quote(uid, safe='')}", Document)

    def episodes(self, *, environment: str | None = None, model: str | None = None) -> list[EnvironmentSeen]:
        """Environments, with what their episodes were paid and how many succeeded."""
        asked = {"environment": environment, "model": model}
        query = {name: value for name, value in asked.items() if value is not None}
        return [msgspec.convert(item, EnvironmentSeen) for item in self._items("environments", query=query)]

    def episode(self, uid: str) -> EpisodeSeen:
        """One episode, step by step; raises `NotFound`."""
        return self._look(f"episodes/{quote(uid, safe='')}", EpisodeSeen)

    def savings(self) -> Document:
        """Baseline against selected runs."""
        return self._look("savings", Document)

    def agreement(self) -> Document:
        """How far those who judge agree."""
        return self._look("agreement", Document)

    def status(self) -> Status:
        """Runs, arms, pulls, tokens, savings."""
        return self._look("status", Status)

    def verify(self) -> Document:
        """Whether every cache equals the fold of the recorded facts."""
        found: Document = msgspec.json.decode(self._asked("GET", f"{self._root}/verify"))
        return found

    # Files, which are here and not at the server

    def import_files(
        self,
        *paths: str | Path,
        format: str | None = None,
        unit: Unit | None = None,
        tools_file: str | Path | None = None,
        phase: Phase | None = None,
    ) -> ImportAnswer:
        """Send transcripts, at most 1 GiB of them, to be read as one act; again changes nothing."""
        asked = {"format": format, "unit": unit, "phase": phase}
        with TemporaryFile() as body:
            n_tools = 0 if tools_file is None else body.write(_content(Path(tools_file)))
            name = _pack([Path(path) for path in paths], body)
            asked |= {"file": name, "tools_bytes": str(n_tools) if n_tools else None}
            query = urlencode({key: value for key, value in asked.items() if value is not None})
            length = body.tell()
            body.seek(0)
            told = self._asked(
                "POST",
                f"{self._place}/imports?{query}",
                body,
                kind="application/octet-stream",
                length=length,
                answer_s=_IMPORT_S,
            )
        return msgspec.json.decode(told, type=ImportAnswer)

    def export(self, file: str | Path, format: ExportFormat = "jsonl") -> None:
        """Write everything into a new file here, as lines of our own format or a view of it for other programs."""
        with (
            new_file(Path(file)) as opened,
            self._streamed("GET", f"{self._place}/export?{urlencode({'format': format})}") as answer,
        ):
            _copy(answer, opened)

    def export_training(
        self,
        file: str | Path,
        format: TrainingFormat,
        *,
        pairing: Pairing = "prompt",
        manifest: bool = True,
        include_reward: bool = True,
        with_secrets: bool = False,
        **only: Unpack[TrainingOptions],
    ) -> TrainingAnswer:
        """Write what was judged into a new file here to train on, and ``FILE.manifest.json`` beside it."""
        target = Path(file)
        beside = target.with_name(target.name + MANIFEST_END) if manifest else None
        asked = {"format": format, "pairing": pairing, "include_reward": include_reward, **only}
        body = msgspec.json.encode({**asked, "with_secrets": with_secrets, "manifest": True})
        with ExitStack() as files:
            second = None if beside is None else files.enter_context(new_file(beside))
            opened = files.enter_context(new_file(target))
            answer = files.enter_context(self._streamed("POST", f"{self._place}/training", body))
            said = answer.read(int(answer.headers["armscope-first-bytes"]))
            made = msgspec.json.decode(said, type=TrainingManifest)
            made = msgspec.structs.replace(made, file=target.name)
            _copy(answer, opened)
            if second is not None:
                second.write(msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
        name = None if beside is None else str(beside)
        return TrainingAnswer(file=str(target), rows=made.rows, manifest_file=name, manifest=made)

    def backup(self, file: str | Path) -> BackupAnswer:
        """Copy the whole database as it is at this moment into a new file here."""
        target = Path(file)
        with new_file(target) as opened, self._streamed("GET", f"{self._root}/backup") as answer:
            _copy(answer, opened)
            revision = int(answer.headers["etag"].strip('"'))
        return BackupAnswer(file=str(target), size_bytes=target.stat().st_size, revision=revision)

    def erase(
        self,
        *,
        run: str | None = None,
        session: str | None = None,
        execution: str | None = None,
        episode: str | None = None,
        rater: str | None = None,
    ) -> EraseAnswer:
        """Erase what was said about a run, a session, an execution or an episode, or a person's name, for good."""
        named = {"run": run, "session": session, "execution": execution, "episode": episode, "rater": rater}
        return self._act("erasures", named, EraseAnswer)

    # How it is asked

    def _act(self, path: str, asked: Mapping[str, object], kind: type[_T]) -> _T:
        said = {name: value for name, value in asked.items() if value is not None or name == "act_id"}
        told = self._asked("POST", f"{self._place}/{path}", msgspec.json.encode(said))
        return msgspec.json.decode(told, type=kind)

    def _look(self, path: str, kind: type[_T]) -> _T:
        return msgspec.json.decode(self._asked("GET", f"{self._place}/{path}"), type=kind)

    def _items(
        self, path: str, *, at_most: int | None = None, query: Mapping[str, str] = {}
    ) -> Iterator[Document]:
        """The items of a list, page by page."""
        cursor: str | None = None
        left = at_most
        while left is None or left > 0:
            n = _SHOWN if left is None else min(left, _SHOWN)
            asked = {**query, "limit": n} | ({} if cursor is None else {"cursor": cursor})
            page = self._look(f"{path}?{urlencode(asked)}", Document)
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def _asked(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | None = None,
        *,
        kind: str = "application/json",
        length: int | None = None,
        answer_s: float = _ANSWER_S,
    ) -> bytes:
        headers = {} if body is None else {"Content-Type": kind}
        if length is not None:
            headers["Content-Length"] = str(length)
        answer = self._sent(method, url, body, headers, whole=True, answer_s=answer_s)
        _check(answer.status, answer.headers.get("content-type"), answer.data)
        return answer.data

    @contextmanager
    def _streamed(
        self, method: str, url: str, body: bytes | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """An answer that is too long to be held."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        answer = self._sent(method, url, body, headers, whole=False, answer_s=_IMPORT_S)
        try:
            refused = answer.data if answer.status != 200 else b""
            _check(answer.status, answer.headers.get("content-type"), refused)
            yield answer
        except urllib3.exceptions.HTTPError as problem:
            raise Unreachable(
                f"The answer must come whole, but it broke off: {type(problem).__name__}.",
                next_step="Ask again; nothing was kept of it.",
            ) from problem
        finally:
            answer.release_conn()

    def _sent(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | None,
        headers: Mapping[str, str],
        *,
        whole: bool,
        answer_s: float,
    ) -> urllib3.BaseHTTPResponse:
        again = Retry(
            total=_RETRIES,
            redirect=False,
            status_forcelist=_AGAIN,
            allowed_methods=None,
            backoff_factor=_BACKOFF_S,
            backoff_jitter=_BACKOFF_S,
            raise_on_status=False,
        )
        try:
            return self._pool.request(
                method,
                url,
                body=body,
                headers={**self._headers, **headers},
                retries=again,
                redirect=False,
                preload_content=whole,
                timeout=Timeout(connect=_CONNECT_S, read=answer_s),
            )
        except urllib3.exceptions.HTTPError as problem:
            raise Unreachable(
                f"The server must answer, got none from {self._root}: {type(problem).__name__}.",
                next_step="Check its address, and that it runs; sent again under the same uid or key it counts once.",
            ) from problem


def _key(key: str | None) -> str:
    return str(uuid.uuid4()) if key is None else key


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise _unreadable(file, problem) from problem


def _pack(paths: Sequence[Path], body: IO[bytes]) -> str:
    """Write a file, or several and folders as an archive; what it is called."""
    try:
        if len(paths) == 1 and paths[0].is_file():
            with paths[0].open("rb") as opened:
                shutil.copyfileobj(opened, body)
            return paths[0].name
        with tarfile.open(fileobj=body, mode="w|") as archive:
            for number, path in enumerate(paths):
                archive.add(path, arcname=f"{number}/{path.name}")
    except OSError as problem:
        raise _unreadable(Path(problem.filename or paths[0]), problem) from problem
    return "files.tar"


def _unreadable(file: Path, problem: OSError) -> UnreadableSource:
    return UnreadableSource(
        f"A file must be readable, got {problem.strerror} ({file.name}).",
        next_step="Check its name; nothing was sent.",
    )


def _copy(answer: urllib3.BaseHTTPResponse, file: IO[bytes]) -> None:
    while piece := answer.read(_PIECE):
        file.write(piece)


def _check(status: int, kind: str | None, body: bytes) -> None:
    if status < 300:
        return
    try:
        told = msgspec.json.decode(body)
        problem = error_of(told)
    except (msgspec.DecodeError, KeyError, TypeError):
        raise Unreachable(
            f"The server must answer as armscope does, got status {status} and {kind or 'no type'}.",
            next_step="Check its address.",
        ) from None
    raise problem


def error_of(told: Mapping[str, Any]) -> ArmscopeError:
    """The error that a server told, of the class that has its code.

    >>> told = {"ok": False, "error": "There is no arm 'x'.", "code": "unknown_arm", "next": "Use another."}
    >>> error_of(told)
    UnknownArm("There is no arm 'x'.", 'Use another.')
    """
    kind = _by_code(ArmscopeError).get(told["code"], ArmscopeError)
    problem, next_step = str(told["error"]), str(told["next"])
    if issubclass(kind, TooMany):
        return TooMany(problem, next_step=next_step, wait_s=1)
    if issubclass(kind, InvalidBatch):
        lines = {line["line"]: error_of(line) for line in told.get("lines", ())}
        return InvalidBatch(problem, next_step=next_step, lines=lines)
    return kind(problem, next_step=next_step)


def _by_code(kind: type[ArmscopeError]) -> dict[str, type[ArmscopeError]]:
    found = {kind.code: kind}
    for inner in kind.__subclasses__():
        found |= _by_code(inner)
    return found
