"""How well a model hears: error rates, confusions, alignments, and reports of them."""

from asr.evaluation.alignment import Counts, Step, align, count
from asr.evaluation.bootstrap import rate_interval
from asr.evaluation.run import Failure, Run, Transcriber, transcribe_all
from asr.evaluation.scoring import Confusion, Evaluation, GroupScore, UtteranceScore, score
from asr.evaluation.table import summary, summary_text
from asr.evaluation.webpage import html_report

__all__ = [
    "Confusion",
    "Counts",
    "Evaluation",
    "Failure",
    "GroupScore",
    "Run",
    "Step",
    "Transcriber",
    "UtteranceScore",
    "align",
    "count",
    "html_report",
    "rate_interval",
    "score",
    "summary",
    "summary_text",
    "transcribe_all",
]
