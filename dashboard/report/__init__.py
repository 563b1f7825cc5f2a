"""Report: the pages' content at one revision as one HTML file without dependencies.

Questions → answers with their sources (`facts`) → sections (`document`) → bytes (`html`).
"""

from dashboard.report.document import report
from dashboard.report.facts import Facts, Query, gather
from dashboard.report.html import rendered
