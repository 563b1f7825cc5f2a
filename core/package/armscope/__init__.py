"""The public names of armscope. Everything that is not in ``__all__`` is private.

>>> from armscope import open_learner
"""

from typing import TYPE_CHECKING

import core

if not hasattr(core, "__all__"):
    raise ImportError(
        f"armscope needs its own package named core, got another one at {core.__file__}. "
        "Rename that one, or start Python in another folder."
    )

from core import __all__, __version__

if TYPE_CHECKING:
    from core import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        return getattr(core, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
