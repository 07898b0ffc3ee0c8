"""Merge of a file slice: the records of its base file with those of its log files, as Hudi's readers merge them."""
