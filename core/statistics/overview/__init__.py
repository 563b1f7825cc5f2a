"""Overview: the first page in numbers, and what on it needs a look."""

from core.statistics.overview.attention import (
    ArmEvidence,
    Attention,
    AttentionKind,
    Happened,
    OverdueQueue,
    PaidWrong,
    Severity,
    attention_of_causes,
    silent_days,
)
from core.statistics.overview.feeds import HISTORY_DAYS, LONGEST_DAYS, FeedKind, SilentFeed
from core.statistics.overview.key_figures import DaySeries, FigureName, KeyFigure
from core.statistics.overview.whole import Overview, RankedArm, overview
