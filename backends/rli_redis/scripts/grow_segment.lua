-- Splits some of a segment's buckets, the next ones in the order of linear hashing, if nobody changed them since.
--
-- KEYS[1]      the segment's state            KEYS[2 ...]  the buckets to split, then the new ones
-- ARGV[1]      how many buckets the segment had when they were read
-- ARGV[2]      the version (8 bytes) that the segment is to have
-- ARGV[3]      the stamp (4 bytes) that each bucket to split had when it was read
-- ARGV[4 ...]  the new content of each of KEYS[2 ...]
--
-- Returns 1 if it was done, 0 if something had changed, false if there is no segment. Atomic as a whole.
--
-- Why one step: a reader finds the number of buckets and the buckets as they were at one moment, so each key is in exactly
-- one bucket.
local state = redis.call('GET', KEYS[1])
if not state then
  return false
end
local buckets, entries, tombstones = struct.unpack('>I4I8I8', state, 9)
-- No epoch is compared. A split adds no entry, and it fails unless number and stamps are those of the server as it is
-- now.
if buckets ~= tonumber(ARGV[1]) then
  return 0
end
local split = #ARGV[3] / 4
local written = {}
for position = 2, #KEYS do
  if position <= split + 1 then
    local at = 4 * (position - 2)
    -- Entries that came since the reading are not in the new content, and would be lost. The next process that writes
    -- tries again.
    if redis.call('GETRANGE', KEYS[position], 0, 3) ~= string.sub(ARGV[3], at + 1, at + 4) then
      return 0
    end
  end
  written[#written + 1] = KEYS[position]
  written[#written + 1] = ARGV[position + 2]
end
written[#written + 1] = KEYS[1]
written[#written + 1] = ARGV[2] .. struct.pack('>I4I8I8', buckets + #KEYS - 1 - split, entries, tombstones)
redis.call('MSET', unpack(written))
return 1
