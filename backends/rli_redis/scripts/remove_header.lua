-- Removes an index's place on a server, if its header is still the one that was read.
--
-- KEYS[1]  the header         KEYS[2]  what holds the id, of indexes of formats 2 and 3
-- ARGV[1]  the content of the header that was read
--
-- Returns 1 if it was removed, else 0. Atomic as a whole.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('UNLINK', unpack(KEYS))
return 1
