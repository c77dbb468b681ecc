"""One HTML file that shows what was found: works offline, on a phone, without a mouse."""

from spare.report.comparison import write_comparison
from spare.report.page import read_record, write_report
from spare.report.saliency_panels import Pictured

__all__ = ["Pictured", "read_record", "write_comparison", "write_report"]
