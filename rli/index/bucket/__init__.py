"""The bucket index: the hash of a record's key names its file group, so that writes look nothing up."""
