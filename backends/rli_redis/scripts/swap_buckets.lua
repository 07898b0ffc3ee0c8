-- Puts new versions of a segment's buckets in the place of those that were read, each if nobody changed it since.
--
-- KEYS[1]      the segment's state            KEYS[2]  the shard's watermark            KEYS[3 ...]  the segment's buckets
-- ARGV[1]      the segment's version (8 bytes) when its buckets were read
-- ARGV[2]      the version that it is to have
-- ARGV[3]      by how many entries and tombstones (4 bytes each, signed) all new versions together have more
-- ARGV[4]      the stamp (4 bytes) that each bucket had when it was read
-- ARGV[5]      by how many entries and tombstones each new version has more
-- ARGV[6]      the greatest sequence among the new entries
-- ARGV[7]      the epoch that the watermark should have
-- ARGV[8 ...]  the new versions
--
-- Returns the numbers, from 0, of the buckets that had changed and were left alone; -1 if the watermark has another epoch; false
-- if there is no segment or no watermark. Atomic as a whole.
--
-- Why stamps are compared: the client merged its entries into the buckets that it read. A bucket with another stamp has
-- entries that the client has not seen; the client reads it again. A purge that removed a tombstone has changed the stamp,
-- too: a client that read the bucket before cannot bring the key back (P30).
local state, watermark = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if not state or not watermark then
  return false
end
if string.sub(watermark, 9, 16) ~= ARGV[7] then
  return -1
end
local buckets, entries, tombstones = struct.unpack('>I4I8I8', state, 9)
local refused, written, count = {}, {}, 0
-- Calls into the server are most of a script's cost: buckets are looked at only if the segment was changed at all.
local is_unchanged = string.sub(state, 1, 8) == ARGV[1]
if is_unchanged then
  local more_entries, more_tombstones = struct.unpack('>i4i4', ARGV[3])
  entries, tombstones = entries + more_entries, tombstones + more_tombstones
end
for position = 3, #KEYS do
  local at = 4 * (position - 3)
  local is_same = is_unchanged
  if not is_same and redis.call('GETRANGE', KEYS[position], 0, 3) == string.sub(ARGV[4], at + 1, at + 4) then
    local more_entries, more_tombstones = struct.unpack('>i4i4', ARGV[5], 2 * at + 1)
    entries, tombstones = entries + more_entries, tombstones + more_tombstones
    is_same = true
  end
  if is_same then
    written[count + 1] = KEYS[position]
    written[count + 2] = ARGV[position + 5]
    count = count + 2
  else
    refused[#refused + 1] = position - 3
  end
end
if count > 0 then
  written[count + 1] = KEYS[1]
  written[count + 2] = ARGV[2] .. struct.pack('>I4I8I8', buckets, entries, tombstones)
  local applied, greatest = struct.unpack('>I4I4', watermark)
  if greatest < tonumber(ARGV[6]) then
    written[count + 3] = KEYS[2]
    written[count + 4] = struct.pack('>I4I4', applied, ARGV[6]) .. string.sub(watermark, 9)
  end
  redis.call('MSET', unpack(written))
end
return refused
