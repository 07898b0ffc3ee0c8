-- Raises the floors in the watermarks of shards, if the shards have the entries of all commits up to there.
--
-- KEYS[1 ...]  the watermarks: applied (4 bytes), the greatest sequence (4 bytes), the epoch (8 bytes), the floor (4 bytes, or
--              nothing before the first purge)
-- ARGV[1]      the floor
--
-- Returns the floor; a smaller number, up to which a shard has all entries, if it went back; false if a watermark is not there.
-- Atomic as a whole.
--
-- Why the watermark is compared: entries up to the floor are ignored from now on, so all of them must be there (P30).
local floor = tonumber(ARGV[1])
local written = {}
for _, key in ipairs(KEYS) do
  local watermark = redis.call('GET', key)
  if not watermark then
    return false
  end
  local applied = struct.unpack('>I4', watermark)
  if applied < floor then
    return applied
  end
  -- Never lowered: tombstones up to a greater floor may be gone, and entries that lost against them must stay out.
  if #watermark < 20 or struct.unpack('>I4', watermark, 17) < floor then
    written[#written + 1] = key
    written[#written + 1] = string.sub(watermark, 1, 16) .. struct.pack('>I4', floor)
  end
end
if #written > 0 then
  redis.call('MSET', unpack(written))
end
return floor
