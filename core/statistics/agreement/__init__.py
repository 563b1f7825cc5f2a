"""Agreement: how far raters say the same of the same things, how sure that is, and what each one's word weighs."""

from core.records.agreement import Agreement, GraderAgreement, Metric, NoAgreement, Reliability
from core.statistics.agreement.alpha import Alpha, alpha, coincidences
from core.statistics.agreement.interval import agreement
from core.statistics.agreement.raters import (
    PairAgreement,
    RaterAgreement,
    against_rest,
    graders_against_humans,
    pairwise,
)
