"""The locks of Hudi's writers: a contract, a module for each lock provider, and the choice by the table's properties."""
