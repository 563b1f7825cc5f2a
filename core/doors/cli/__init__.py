"""The command line: parse, call one verb, format. ``serve`` and ``demo`` are added by the dashboard's launcher.

One file per group of commands, each found by lying here; ``--help`` lists them in the order of the table of verbs.
What they share is in ``program``.
"""

from importlib import import_module
from pkgutil import iter_modules

from core.doors.cli.program.app import (
    Asked,
    ReadDatabase,
    answer,
    app,
    asked,
    command,
    context_of,
    done,
    following,
    in_order,
    main,
)

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
in_order()
