"""Training form: judged answers as a training file with its manifest, made on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import streamlit as st

from core.records.limits import MAX_LABEL_CHARS
from core.records.training import Pairing, TrainingFormat, TrainingManifest, TrainingQuery
from dashboard import downloads, queries, wording
from dashboard.reading import reading
from dashboard.sentences.judging import BLOCKER_WORDS
from dashboard.widgets.data.file_forms import chosen_format, moved_on, save
from dashboard.widgets.popover import in_use
from dashboard.widgets.results import refusal
from dashboard.widgets.words import as_table, small
from dashboard.wording import Markdown, Words

WORDS: Final[dict[TrainingFormat, tuple[Words, str]]] = {
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
FORMAT: Final = "training"
_PAIRINGS: Final[tuple[Pairing, ...]] = get_args(Pairing)
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


def form() -> None:
    """Draw format, selection and button; then the file, its counts and its blockers."""
    format_name = chosen_format("Format to train on", WORDS, default="sft_jsonl", key=FORMAT)
    query = _more(format_name)
    st.button(
        "Make the training file",
        icon=":material/model_training:",
        key="make training",
        on_click=downloads.make_training,
        args=(query,),
    )
    refusal("training")
    ready = downloads.ready_training()
    if ready is not None and ready.form == query:
        _download(ready)


def _more(format_name: TrainingFormat) -> TrainingQuery:
    """Show the optional fields: pairing, filters of rows, and rows with a likely secret."""
    behind = st.expander("More", icon=":material/tune:", key="training more", on_change="rerun")
    if not behind.open and not in_use(*_MORE):
        return TrainingQuery(format=format_name)
    with behind:
        pairing: Pairing = "prompt"
        if format_name == "preference_jsonl":
            pairing = st.segmented_control(
                "Chosen and rejected answer are to the",
                _PAIRINGS,
                default="prompt",
                required=True,
                key=_PAIRING,
                bind="query-params",
                format_func=_PAIRING_WORDS.__getitem__,
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


def _download(ready: downloads.ReadyTraining) -> None:
    manifest = ready.answer.manifest
    st.markdown(
        f"**{wording.things(manifest.rows, 'row')}** of {wording.things(manifest.evaluations, 'evaluation')}: "
        f"{wording.count(manifest.split.train)} to train on, "
        f"{wording.count(manifest.split.test)} to test with.{moved_on(manifest.revision)}"
    )
    _in_the_way(manifest)
    with st.container(horizontal=True, vertical_alignment="center"):
        save("Save the rows", ready.path, "save training")
        save("Save the manifest", ready.manifest, "save training manifest", "secondary")
        st.button(
            "Delete both files",
            type="tertiary",
            key="drop training",
            on_click=downloads.drop,
            args=(downloads.TRAINING,),
        )


def _in_the_way(manifest: TrainingManifest) -> None:
    """Show why evaluations did not become rows, and their blockers by name."""
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
