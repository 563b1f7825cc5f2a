"""Launch: the console command ``armscope``. Two commands are too frequent to wait for all the others to load."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the console command ``armscope``."""
    words = sys.argv[1:]
    if words[:1] == ["with"] or words[:2] == ["hook", "run"]:
        from core.doors.launch import run_at_once

        run_at_once(words)
    from dashboard.commands import main as run

    run()


if __name__ == "__main__":
    main()
