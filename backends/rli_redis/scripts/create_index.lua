-- Gives an index its place on a server, unless there is one of this name.
--
-- KEYS[1]  the header         ARGV[1]  its content
--
-- Returns the content of the header that is there afterwards. Atomic as a whole.
redis.call('SETNX', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[1])
