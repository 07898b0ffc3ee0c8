"""Files of records that commands read and write."""
