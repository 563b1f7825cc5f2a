"""Launched sessions: runs get the selection with which armscope started their session."""

from __future__ import annotations

from typing import Any

import msgspec

from core.errors import InvalidInput
from core.flows.context import Context
from core.formats.claude_code import NAME as CLAUDE_CODE
from core.installed.launch import LaunchFolder
from core.records.arm import Arm
from core.records.run import Inventory, Run
from core.records.selection import Selection


class LaunchedRuns:
    """Reader of the selections that were in force in the sessions of a learner."""

    def __init__(self, context: Context) -> None:
        self._folder = None if context.launches is None else LaunchFolder(context.launches, context.learner)
        self._sessions = frozenset() if self._folder is None else self._folder.sessions()
        self._selections: dict[str, Selection | None] = {}
        self._inventories: dict[tuple[int, str], tuple[Inventory, Inventory]] = {}

    def chosen(self, run: Run) -> Run:
        """Return a run with the selection of its session, if armscope started it."""
        if self._folder is None or run.format != CLAUDE_CODE or run.session not in self._sessions:
            return run
        document = self._folder.chosen_at(run.session or "", run.ended_at_ms)
        selection = None if document is None else self._selection(document)
        if selection is None:
            return run
        inventory = self._inventory(run.inventory, selection)
        in_full, by_name = ({arm.key for arm in arms} for arms in (inventory.arms, inventory.named))
        return msgspec.structs.replace(
            run,
            inventory=inventory,
            loaded=tuple(key for key in run.loaded if key in by_name),
            run_class=selection.run_class,
            selection=selection,
            excluded=tuple(key for key in selection.excluded if key not in in_full),
        )

    def _selection(self, document: dict[str, Any]) -> Selection | None:
        identity = str(document.get("id"))
        if identity not in self._selections:
            try:
                text = msgspec.json.encode(document.get("selection"))
                self._selections[identity] = Selection.from_json(text)
            except InvalidInput:
                self._selections[identity] = None
        return self._selections[identity]

    def _inventory(self, inventory: Inventory, selection: Selection) -> Inventory:
        """Return the inventory of a run: skills that the selection put in are there by name, or in full since a load.

        A list of an earlier start of the session may name others. Runs of a session share the object.
        """
        key = (id(inventory), selection.seed)
        if key not in self._inventories:
            present, out = {arm.key for arm in inventory.offered}, frozenset(selection.excluded)
            added = (
                Arm(key=one.arm, token_cost=one.token_cost)
                for one in selection.decisions
                if one.included and one.arm not in present
            )
            named = (*(arm for arm in inventory.named if arm.key not in out), *added)
            whole = msgspec.structs.replace(inventory, named=named)
            self._inventories[key] = (inventory, whole)  # the first keeps its id taken
        return self._inventories[key][1]
