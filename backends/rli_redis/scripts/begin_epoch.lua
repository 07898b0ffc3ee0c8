-- Gives shards another epoch, and those that have no watermark yet their watermark.
--
-- KEYS[1 ...]  the watermarks
-- ARGV[1]      the epoch
-- ARGV[2]      the commit sequence up to which a shard without a watermark has the entries of all commits
--
-- Returns 1. Atomic as a whole.
--
-- Why: a writer that still goes by an earlier epoch may hold entries of a commit that the log's server has lost since.
-- Its sequence may be given out a second time. From now on swap_buckets refuses that writer.
for _, key in ipairs(KEYS) do
  -- As far as the list of segments tells, this shard never had an entry: the caller has found all watermarks that it
  -- names.
  local watermark = redis.call('GET', key) or struct.pack('>I4I4', ARGV[2], 0)
  -- The epoch alone changes. The greatest sequence stays: the caller reads it next, and finds entries of lost commits
  -- by it.
  redis.call('SET', key, string.sub(watermark, 1, 8) .. ARGV[1] .. string.sub(watermark, 17))
end
return 1
