"""Pictures of runs, certificates, policies and confidence sets with matplotlib (extra `viz`), one line each.

Every function takes axes to draw on (`ax`, a new figure by default) and returns them.
"""

from matrixrl.plots.curves import certificate_band, regret, returns
from matrixrl.plots.earnings import earnings
from matrixrl.plots.film import film
from matrixrl.plots.log_audit import log_audit
from matrixrl.plots.maps import policy, value
from matrixrl.plots.pairs import action_bounds, explanation, visits, widths
from matrixrl.plots.regions import confidence_region
from matrixrl.problems import Layout

__all__ = [
    "Layout",
    "action_bounds",
    "certificate_band",
    "confidence_region",
    "earnings",
    "explanation",
    "film",
    "log_audit",
    "policy",
    "regret",
    "returns",
    "value",
    "visits",
    "widths",
]
