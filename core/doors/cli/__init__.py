"""Command line: parse, call one verb, format. The dashboard's launcher adds ``serve``, ``demo`` and ``report``.

Each file of this folder holds related commands and is imported here. ``program`` holds the code that they share.
"""

from importlib import import_module
from pkgutil import iter_modules

from core.doors.cli.program.app import (
    BasePath,
    GlobalOptions,
    LogForm,
    LogFrom,
    Port,
    ReadDatabase,
    answer,
    app,
    by_variable,
    command,
    context_of,
    done,
    following,
    global_options,
    main,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
