"""A small environment on the real servers of `ors-sdk` and `openreward`; the recorded exchanges were answered by it.

``python tests/conformance/ors_server.py ors|openreward PORT [TASKS.json]`` serves it. Nothing of ours is imported,
for `openreward` runs in an environment of its own.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path

from pydantic import BaseModel

USUAL = {
    "train": [{"id": f"t{n}", "a": n, "b": n + 1} for n in range(5)],
    "hidden": [{"id": "h0", "a": 40, "b": 2}],
}


class Nothing(BaseModel):
    """No input."""


class Sum(BaseModel):
    """What is submitted."""

    answer: int
    note: str = ""


def environments(package, tasks):
    """The classes that a server of either package serves."""
    home = package if package == "ors" else "openreward.environments"
    found = importlib.import_module(home)
    tool, output, text, image = found.tool, found.ToolOutput, found.TextBlock, found.ImageBlock

    class Sums(found.Environment):
        def __init__(self, task_spec={}, secrets={}):
            super().__init__(task_spec, secrets)
            self.n_looks = 0

        @classmethod
        def list_splits(cls):
            return list(tasks)

        @classmethod
        def list_tasks(cls, split):
            return tasks[split]

        def setup(self):
            if self.task_spec.get("boom"):
                raise RuntimeError("setup failed on purpose")

        def get_prompt(self):
            if "a" not in self.task_spec:
                raise RuntimeError("task has no a")
            words = f"{self.task_spec['a']} + {self.task_spec['b']} = ?"
            return [text(text=words, detail={"n": 1})]

        @tool
        def look(self) -> output:
            """Look at the board."""
            self.n_looks += 1
            return output(blocks=[text(text=f"look {self.n_looks}")], reward=0.1)

        @tool
        def idle(self) -> output:
            """Do nothing; gives no reward."""
            return output(blocks=[])

        @tool
        def submit(self, params: Sum) -> output:
            """Submit the sum."""
            expected = self.task_spec["a"] + self.task_spec["b"]
            is_right = params.answer == expected
            return output(
                blocks=[text(text="Correct!" if is_right else "Wrong")],
                reward=1.0 if is_right else -0.5,
                finished=True,
                metadata={"expected": expected},
            )

        @tool
        def crash(self) -> output:
            """Always raises."""
            raise RuntimeError("tool crashed on purpose")

        @tool
        def picture(self) -> output:
            """An image."""
            blocks = [image(mimeType="image/png", data="aGk="), text(text="é🎯\nline two")]
            return output(blocks=blocks, reward=0.0)

        @tool
        def long(self) -> output:
            """Long output, sent in pieces."""
            return output(blocks=[text(text="0123456789" * 1000)], reward=0.25)

        @tool
        def nanreward(self) -> output:
            """Not a number."""
            return output(blocks=[text(text="nan")], reward=float("nan"))

        @tool
        async def slow(self) -> output:
            """Takes its time."""
            await asyncio.sleep(0.3)
            return output(blocks=[text(text="at last")], reward=0.5)

        @tool
        def die(self) -> output:
            """Takes the server with it."""
            os.kill(os.getpid(), 9)
            time.sleep(60)
            raise AssertionError

    class Other(found.Environment):
        @classmethod
        def list_splits(cls):
            return ["test"]

        @classmethod
        def list_tasks(cls, split):
            return [{}]

        def get_prompt(self):
            return [text(text="hi")]

        @tool
        def end(self) -> output:
            """End."""
            return output(blocks=[text(text="bye")], finished=True)

    return found.Server, [Sums, Other]


def main(package, port, tasks_file=None):
    tasks = USUAL if tasks_file is None else json.loads(Path(tasks_file).read_text(encoding="utf-8"))
    server, classes = environments(package, tasks)
    server(classes).run(host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
