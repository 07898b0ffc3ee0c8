"""The locks of Hudi's writers: one module for each lock provider, the contract that they share, and who chooses one."""
