"""Report: what the pages say at one moment, frozen into one HTML file that needs nothing and nobody.

Questions → answers with where they come from (`facts`) → sections (`document`) → bytes (`html`).
"""

from dashboard.report.document import report
from dashboard.report.facts import Facts, Query, gather
from dashboard.report.html import rendered
