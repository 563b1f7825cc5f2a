"""Agreement: how far raters say the same of the same things, how sure that is, and what each one's word weighs."""

from core.statistics.agreement.alpha import Alpha, Metric, NoAgreement, alpha, coincidences
from core.statistics.agreement.interval import Agreement, Reliability, agreement
from core.statistics.agreement.raters import (
    GraderAgreement,
    PairAgreement,
    RaterAgreement,
    against_rest,
    graders_against_humans,
    pairwise,
)
