"""Files that leave: everything as a zip, judged answers as a training file, a backup; and the place of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final, Literal, TypeVar

import streamlit as st

from core.errors import Denied
from core.explained.machine import PACKED
from core.flows.bundle import BundleAnswer
from core.records.limits import MAX_LABEL_CHARS
from core.records.parameters import ExportFormat
from core.records.status import left_out_words
from core.records.training import Pairing, TrainingAnswer, TrainingFormat, TrainingManifest, TrainingQuery
from core.settings import Server
from dashboard import actions, downloads, queries, wording
from dashboard.reading import reading, still
from dashboard.sentences.judging import BLOCKER_WORDS
from dashboard.widgets.fields import choice, in_use, lazy_popover
from dashboard.widgets.parts import as_table, small
from dashboard.widgets.results import refusal, result
from dashboard.widgets.tables import frame_of
from dashboard.wording import Markdown, Words

_Format = TypeVar("_Format", ExportFormat, TrainingFormat)
_Form = TypeVar("_Form", ExportFormat, TrainingQuery)
_ZIP: Final = ".zip"

# Export
EXPORT_WORDS: Final[dict[ExportFormat, tuple[Words, str]]] = {
    "jsonl": (
        Words("Everything"),
        "Lines: episodes and credits too, loss-free; imports give the same posteriors again.",
    ),
    "json": (Words("OpenClaw"), "JSON in the shape of OpenClaw’s export: the present state."),
    "parquet": (
        Words("Data frames"),
        "The same lines as one table with typed columns, for DuckDB and pandas.",
    ),
    "csv": (Words("Spreadsheets"), "Two tables: posteriors and observations, without formulas."),
}
_EXPORT_FORMAT: Final = "export"

# Training file
TRAINING_WORDS: Final[dict[TrainingFormat, tuple[Words, str]]] = {
    "reward_jsonl": (Words("All judged"), "All judged answers, with their permitted uses."),
    "sft_jsonl": (Words("Fine-tuning"), "Answers good enough to fine-tune on, by the thresholds in force."),
    "preference_jsonl": (Words("Pairs"), "A chosen answer beside a rejected one to the same instruction."),
    "trace_jsonl": (Words("Requests"), "All requests and answers, judged or not."),
    "reward_csv": (Words("Table"), "All judged answers as a table, without formulas."),
}
_LEFT_OUT: Final = {
    "not_eligible": Words("below the thresholds"),
    "no_text": Words("without stored text"),
    "other_shape": Words("with a text that is no JSON object"),
    "second_opinion": Words("of an answer that another rater's row has"),
    "secret": Words("with a likely secret"),
    "not_best": Words("with a better answer in their group"),
    "no_other": Words("without an answer to compare with"),
    "same_answer": Words("with equal answers"),
    "claimed": Words("by raters that no trusted token names"),
    "hidden": Words("in a blind queue that is open to you"),
}
_TRAINING_FORMAT: Final = "training"
_PAIRING_WORDS: Final[dict[Pairing, str]] = {"prompt": "Same instruction", "layer": "Same layer"}
_PAIRING: Final = "training_pairing"
_SECRETS: Final = "training_secrets"
_SPAN: Final = "training_span"
_RATERS: Final = "training_raters"
_RUBRICS: Final = "training_rubrics"
_ADAPTERS: Final = "training_adapters"
_LAYERS: Final = "training_layers"
_EXECUTIONS: Final = "training_executions"
_NARROWED: Final = "Choices under More apply even while it is folded."
_MORE: Final = (_PAIRING, _SECRETS, _SPAN, _RATERS, _RUBRICS, _ADAPTERS, _LAYERS, _EXECUTIONS)

BACKUP: Final = "backup file"
_WHERE: Final = ("It is on this machine only.", "A server keeps it.")


def chosen_format(
    label: Markdown, words: Mapping[_Format, tuple[Words, str]], *, default: _Format, key: str
) -> _Format:
    """Draw the choice of a format by its purpose, kept in the address by its name, with its words."""
    name = choice(label, {one: title for one, (title, _) in words.items()}, default, key=key, labelled=True)
    st.markdown(small(f"{wording.literal(words[name][1])} `{name}`"))
    return name


def moved_on(revision: int) -> Markdown:
    """Return the note about a file of this revision; none for the present one."""
    since = reading().frame.revision - revision
    return Markdown(
        f" {wording.things(since, 'change')} came since; they are not in the file." if since else ""
    )


def save(label: Markdown, path: Path, key: str, type: Literal["primary", "secondary"] = "primary") -> None:
    """Show a button that downloads a file. It is read on the click, after another check of the person's rights."""
    here = reading()

    def content() -> BytesIO:
        if still(here) is not here:
            raise Denied("What you may do here has changed.", next_step="Load the page again.")
        return BytesIO(path.read_bytes())

    st.download_button(
        label,
        content,
        file_name=path.name,
        mime="application/zip" if path.suffix == _ZIP else "application/octet-stream",
        on_click="ignore",
        type=type,
        icon=":material/download:",
        key=key,
    )


def export_form() -> None:
    """Draw format and button; then the file with its manifest, to be saved."""
    format_name = chosen_format("Format", EXPORT_WORDS, default="jsonl", key=_EXPORT_FORMAT)
    _make_button("export", ":material/inventory_2:", downloads.make_export, format_name, at="export")
    ready = downloads.ready(downloads.EXPORT, format_name)
    if ready is not None:
        _export_download(ready)


def _make_button(what: Words, icon: str, make: Callable[[_Form], None], form: _Form, *, at: str) -> None:
    st.button(f"Make the {what}", icon=icon, key=f"make {at}", on_click=make, args=(form,))
    refusal(at)


def _delete_button(label: Words, kind: str, *, key: str) -> None:
    st.button(label, type="tertiary", key=key, on_click=downloads.drop, args=(kind,))


def _export_download(ready: downloads.Ready[BundleAnswer]) -> None:
    manifest = ready.answer.manifest
    st.markdown(
        f"**{wording.size(ready.answer.size_bytes)}**: "
        f"{wording.things(manifest.runs, 'run')}, {wording.things(manifest.arms, 'arm')}, "
        f"{wording.things(manifest.rewards, 'reward')}.{moved_on(manifest.revision)}"
    )
    if manifest.hidden:
        st.markdown(
            f":orange[:material/warning:] {wording.things(manifest.hidden, 'evaluation')} by others left out, so it "
            "is not loss-free: what they are of is open to you in a blind queue. Judge it or skip it first."
        )
    if manifest.compacted:
        st.markdown(f":orange[:material/warning:] {wording.literal(left_out_words(manifest.compacted))}")
    with st.container(horizontal=True, vertical_alignment="center"):
        save("Save the zip", ready.path, "save export")
        behind = lazy_popover("Manifest", key="manifest")
        if behind is not None:
            with behind:
                as_table(frame_of(PACKED, manifest.files), alt="Files of the export with their hashes")
                st.markdown(
                    small(
                        "The zip also has the learner, the time, the counts, the settings, and these hashes."
                    )
                )
        _delete_button("Delete the zip", downloads.EXPORT, key="drop export")


def training_form() -> None:
    """Draw format, selection and button; then the file, its counts and its blockers."""
    format_name = chosen_format(
        "Format to train on", TRAINING_WORDS, default="sft_jsonl", key=_TRAINING_FORMAT
    )
    query = _more(format_name)
    icon = ":material/model_training:"
    _make_button("training file", icon, downloads.make_training, query, at="training")
    ready = downloads.ready(downloads.TRAINING, query)
    if ready is not None:
        _training_download(ready)


def _more(format_name: TrainingFormat) -> TrainingQuery:
    behind = st.expander("More", icon=":material/tune:", key="training more", on_change="rerun")
    if not behind.open and not in_use(*_MORE):
        return TrainingQuery(format=format_name)
    with behind:
        pairing: Pairing = "prompt"
        if format_name == "preference_jsonl":
            pairing = choice(
                "Chosen and rejected answer are to the", _PAIRING_WORDS, "prompt", key=_PAIRING, labelled=True
            )
        graders, versions = queries.evaluated_names()
        people = sorted({one.name for one in graders if one.kind != "model"})
        left, right = st.columns(2, gap="small")
        with left:
            raters = _several("Raters", people, _RATERS)
            adapters = _several("Adapters", (), _ADAPTERS, "URI or name")
            executions = _several("Executions", (), _EXECUTIONS, "id")
        with right:
            rubrics = _several("Rubrics", versions, _RUBRICS)
            layers = _several("Layers", (), _LAYERS, "id or kairos://layer/…")
        is_spanned = st.toggle(
            "Only judgements in the time span above",
            key=_SPAN,
            bind="query-params",
            help="The span in the row of filters above; its models, channels and types don’t matter.",
        )
        with_secrets = st.toggle(
            "Also rows that seem to hold a secret",
            key=_SECRETS,
            bind="query-params",
            help="A key or a password. They are held back else, and the manifest lists them either way.",
        )
    view = reading().view
    query = TrainingQuery(
        format=format_name,
        pairing=pairing,
        with_secrets=with_secrets,
        adapters=adapters,
        layers=layers,
        executions=executions,
        raters=raters,
        rubrics=rubrics,
        since_ms=view.since_ms if is_spanned else None,
        until_ms=view.until_ms if is_spanned else None,
    )
    if not behind.open and query != TrainingQuery(format=format_name):
        st.markdown(small(_NARROWED))
    return query


def _several(label: Markdown, known: Sequence[str], key: str, what: str = "") -> tuple[str, ...]:
    """Return several names: of those that are known, or typed; nothing = all."""
    chosen: list[str] = st.multiselect(
        label,
        [name for name in known if name.strip()],
        key=key,
        bind="query-params",
        format_func=wording.plain,
        accept_new_options=True,
        placeholder=f"All, or {what}" if what else "All",
    )
    return tuple(name if name in known else name.strip()[:MAX_LABEL_CHARS] for name in chosen)


def _training_download(ready: downloads.Ready[TrainingAnswer]) -> None:
    manifest = ready.answer.manifest
    st.markdown(
        f"**{wording.things(manifest.rows, 'row')}** of {wording.things(manifest.evaluations, 'evaluation')}: "
        f"{wording.count(manifest.split.train)} to train on, "
        f"{wording.count(manifest.split.test)} to test with.{moved_on(manifest.revision)}"
    )
    _in_the_way(manifest)
    with st.container(horizontal=True, vertical_alignment="center"):
        save("Save the rows", ready.path, "save training")
        save(
            "Save the manifest", Path(ready.answer.manifest_file or ""), "save training manifest", "secondary"
        )
        _delete_button("Delete both files", downloads.TRAINING, key="drop training")


def _in_the_way(manifest: TrainingManifest) -> None:
    left_out = {
        words: count for name, words in _LEFT_OUT.items() if (count := getattr(manifest.left_out, name))
    }
    if left_out:
        reasons = ", ".join(f"{wording.count(count)} {name}" for name, count in left_out.items())
        st.markdown(small(f"Left out: {reasons}."))
    if manifest.query.with_secrets and manifest.suspicions_count:
        st.markdown(
            f":orange[:material/warning:] {wording.things(manifest.suspicions_count, 'row')} in it "
            f"{'seems' if manifest.suspicions_count == 1 else 'seem'} to hold a secret."
        )
    blockers = manifest.sft_blockers | manifest.preference_blockers
    if blockers:
        rows: dict[str, list[str]] = {
            "kept out because": [BLOCKER_WORDS[name] for name in blockers],
            "fine-tuning": [wording.count(manifest.sft_blockers.get(name, 0)) for name in blockers],
            "preference": [wording.count(manifest.preference_blockers.get(name, 0)) for name in blockers],
        }
        as_table(rows, alt="Evaluations that each blocker keeps out of training")


def facts() -> None:
    """Show path and size; results of the buttons appear at the top of the page."""
    frame, location = reading().frame, queries.database()
    st.code(location.file, language=None, wrap_lines=True)
    st.markdown(
        small(
            f"{wording.size(location.size_bytes)}, {wording.things(len(frame.learners), 'learner')}. "
            f"{_WHERE['://' in location.file]}"
        )
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button(
            "Verify",
            icon=":material/fact_check:",
            key="verify",
            on_click=actions.verify,
            help="Recomputes every cache from the facts",
        )
        if reading().may("settings"):
            behind = lazy_popover("Back up", icon=":material/save:", key="backup popover", type="secondary")
            if behind is not None:
                with behind:
                    _backup()
        behind = lazy_popover("Versions", key="versions of data")
        if behind is not None:
            behind.markdown(
                f"**Layout of the tables: {wording.literal(location.schema)}.** A newer armscope may need "
                "`armscope upgrade`.\n\n"
                f"**Changes so far: {wording.count(frame.revision)}.** Each write to the learner adds 1."
            )
    result("verify")
    result("backup")


def _backup() -> None:
    """Draw a new file for the copy; the one proposed lies beside the data."""
    frame = reading().frame
    location = reading().context.store.location
    # Of a server's database the name alone, and the folder that this process was started in.
    path = Path(location.name).absolute() if isinstance(location, Server) else location
    proposed = path.with_name(f"{path.stem}-r{frame.revision}{path.suffix or '.db'}")
    file = st.text_input(
        "New file, on this machine",
        value=str(proposed),
        key=f"{BACKUP} {frame.revision}",
        persist_state="page",
    )
    st.markdown(small("The whole database, every learner, as of one moment, while it is in use."))
    st.button(
        "Write the backup",
        type="primary",
        key="do backup",
        disabled=not file.strip(),
        on_click=actions.back_up,
        args=(file.strip(),),
    )
