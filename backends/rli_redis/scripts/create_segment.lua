-- Makes a segment of empty buckets, unless it is there already, and its shard's watermark.
--
-- KEYS[1]  the segment's state            KEYS[2]  the shard's watermark            KEYS[3 ...]  all the segment's buckets
-- ARGV[1]  an empty bucket               ARGV[2]  the segment's version (8 bytes)
-- ARGV[3]  the commit sequence up to which a new shard has the entries of all commits         ARGV[4]  its epoch
-- ARGV[5]  the epoch of this server, "" for any
--
-- Returns the watermark if the segment was made, false if it was there, -1 if this server has another epoch. Atomic as a whole.
--
-- Why empty buckets are written: readers then know that a bucket which is missing was lost.
if not is_epoch(ARGV[5]) then
  return -1
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  -- A watermark serves all segments of its shard. So one that is there stays as it is, even if this segment is the
  -- first.
  redis.call('SET', KEYS[2], struct.pack('>I4I4', ARGV[3], 0) .. ARGV[4])
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  -- Another process was first. Its buckets may hold entries already, and its number of buckets counts.
  return false
end
local written = { KEYS[1], ARGV[2] .. struct.pack('>I4I8I8', #KEYS - 2, 0, 0) }
for position = 3, #KEYS do
  written[#written + 1] = KEYS[position]
  written[#written + 1] = ARGV[1]
end
redis.call('MSET', unpack(written))
return redis.call('GET', KEYS[2])
