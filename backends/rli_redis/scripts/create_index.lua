-- Gives an index its place on a server, unless there is one of this name or another one has its id.
--
-- KEYS[1]  the header         KEYS[2]  what holds the id
-- ARGV[1]  the header's content              ARGV[2]  the index's name
--
-- Returns the content of the header that is there afterwards; false if the id is taken. Atomic as a whole.
local header = redis.call('GET', KEYS[1])
if header then
  return header
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  return false
end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])
return ARGV[1]
