-- Changes the header of an index, if it is still the one that was read.
--
-- KEYS[1]  the header
-- ARGV[1]  the content that was read         ARGV[2]  the content that it is to have
--
-- Returns 1 if it was changed, else 0. Atomic as a whole.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- A server whose memory is full lets a script write once it has removed something: an index can be dropped there.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
