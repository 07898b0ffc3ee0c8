"""Merge of the base file of a file slice with its log files, by the rules of Hudi's readers."""
