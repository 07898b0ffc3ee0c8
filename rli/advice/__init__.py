"""Advice on the kind of index that suits a table: statistics, rates of this machine, a model of costs, and a choice."""
