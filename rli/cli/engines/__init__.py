"""Engines that the command line writes tables with."""
