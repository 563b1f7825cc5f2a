"""Terminals and hostile text: every reading command, in every form, over rows whose free texts are hostile."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Text

from core.doors.cli import main
from core.store.tables import metadata
from tests.store.damaging import worlds

HOSTILE = "\x1b]0;title\x07\x1b[31m\u202e\x9b2J\r\nx"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WORDS = {
    "run": "format unit class phase status outcome choice not_offered inventory",
    "decision": "reason",
    "provenance": "kind said",
    "observation": "kind",
    "adapter": "uri",
    "layer": "uid",
    "training_pair": "digest",
    "rubric": "content",
    "evaluation": "rubric outcome mover",
    "choice": "chosen rubric",
    "review_queue": "asks rubric",
    "review_item": "why control",
    "episode": "format status total_text final_text",
    "scale": "base",
    "step": "kind args_digest meta_digest extra",
    "episode_part": "kind",
    "episode_credit": "rule",
    "environment_task": "total_text final_text",
    "environment_day": "reward_sum reward_squares",
    "reply": "kind answer",
    "reset": "target scope",
    "setting": "name value before",
    "import": "summary",
    "undo": "kind",
    "audit": "action act detail",
    "member_role": "role learner",
    "token": "digest scopes learners",
    "webhook": "learner pages secret_from url",
    "alert": "learner kind object ids",
    "alert_message": "state result",
    "arm": "key type",
    "rollout": "said started updated",
    "rollout_message": "content",
    "trace": "said",
    "erased": "digest",
}
"""Columns whose texts armscope itself chooses, or checks before it stores them."""
LEFT_OUT = {
    *("learner", "learner_name", "span", "offer", "hold", "review_hold", "review_skip", "review_draft"),
    *(
        "review_repeat",
        "review_aside",
        "spent",
        "defined",
        "history",
        "definition",
        "staged_arm",
        "staged_usage",
        "staged_provenance",
    ),
    *("usage_hour", "usage_day", "model_history", "denial", "machine"),
}
"""Tables of names that are checked, of work in progress, and of sums."""
READS: dict[str, tuple[str, ...]] = {
    "posteriors": (),
    "arms": (),
    "runs": (),
    "status": (),
    "savings": (),
    "evaluations": (),
    "agreement": (),
    "episodes list": (),
    "queue list": (),
    "rubric list": (),
    "rollouts": (),
    "traces": (),
    "member list": (),
    "token list": (),
    "channel list": (),
    "audit": (),
    "alert list": (),
    "learners": (),
    "settings": (),
    "verify": (),
    "select": ("--seed", "1"),
}
SHOW = {
    *("runs", "run", "evaluations", "queue list", "member list", "token list", "channel list", "audit"),
    "episodes show",
}
"""Commands that show free texts of these worlds."""

GROUPS = {name.split()[0] for name in READS if " " in name}
FORMS: tuple[tuple[str, ...], ...] = ((), ("--csv",), ("--tsv",), ("--nl",), ("--json",))
USAGE = 2


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Databases that have, together, a row of every table, with hostile free texts."""
    folder = tmp_path_factory.mktemp("worlds")
    for context in worlds(folder):
        context.store.close()
    paths = [
        folder / f"{name}.db" for name in ("lively", "judged", "review", "a", "people", "alerts", "waiting")
    ]
    for path in paths:
        _spoil(path)
    return paths


def _spoil(path: Path) -> None:
    connection = sqlite3.connect(path)
    for table in metadata.tables.values():
        words = WORDS.get(table.name, "").split()
        free = [one for one in table.columns if isinstance(one.type, Text) and one.name not in words]
        if table.name not in LEFT_OUT:
            for column in free:
                connection.execute(
                    f'UPDATE "{table.name}" SET "{column.name}" = "{column.name}" || ?'
                    f" WHERE \"{column.name}\" <> ''",
                    [HOSTILE],
                )
    connection.commit()
    connection.close()


def test_no_terminal_obeys_a_text(databases: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    shown: set[str] = set()
    for path in databases:
        commands = [(*name.split(), *more) for name, more in READS.items()]
        for command in (*commands, *_of_one(path)):
            for form in FORMS:
                code, out, err = _asked(capsys, "--database", str(path), *command, *form)
                assert not OBEYED.search(out + err), (command, form)
                assert form or code != USAGE, (command, err)
                if not form and r"\x1b" in out + err:
                    shown.add(" ".join(command[:2] if command[0] in GROUPS else command[:1]))
    assert shown >= SHOW


def _of_one(path: Path) -> list[tuple[str, ...]]:
    """Return commands about one run and one episode, and about those that are not there."""
    connection = sqlite3.connect(path)
    runs = [uid for (uid,) in connection.execute("SELECT uid FROM run WHERE uid <> '' LIMIT 1")]
    episodes = [uid for (uid,) in connection.execute("SELECT uid FROM episode LIMIT 1")]
    connection.close()
    return [
        *(("run", uid) for uid in (*runs, f"no {HOSTILE}")),
        *(("episodes", "show", uid) for uid in (*episodes, f"no {HOSTILE}")),
    ]


def _asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return ended.value.code, out, err
