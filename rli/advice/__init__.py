"""Advice on the kind of index that suits a table: statistics, rates of this machine, a model of costs, and a choice."""

from rli.advice.choice import Advice
from rli.advice.model import KindEstimate
from rli.advice.statistics import BatchStatistics, CommitStatistics, Reach, TableStatistics

__all__ = ["Advice", "BatchStatistics", "CommitStatistics", "KindEstimate", "Reach", "TableStatistics"]
