-- Gives shards another epoch, and those that have no mark yet their mark.
--
-- KEYS[1 ...]  the marks
-- ARGV[1]      the epoch
-- ARGV[2]      the commit sequence up to which a shard without a mark has the entries of all commits
--
-- Returns 1. Atomic as a whole.
for _, key in ipairs(KEYS) do
  local mark = redis.call('GET', key) or struct.pack('>I4I4', ARGV[2], 0)
  redis.call('SET', key, string.sub(mark, 1, 8) .. ARGV[1] .. string.sub(mark, 17))
end
return 1
