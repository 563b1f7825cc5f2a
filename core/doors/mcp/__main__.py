"""``python -m core.doors.mcp --database F --learner L``: ``armscope mcp`` for hosts that start Python only."""

import sys

from core.doors.cli import main

if __name__ == "__main__":
    main(["mcp", *sys.argv[1:]])
