-- Puts new versions of the buckets of some segments in the place of those that were read, each if nobody changed it since.
--
-- KEYS[1 ... 2n]  the state of each segment, and its shard's watermark            KEYS[2n + 1 ...]  the segments' buckets
-- ARGV[1]         of each segment: its version (8 bytes) when its buckets were read, how many of the buckets are its own, and by
--                 how many entries and tombstones all their new versions together have more (4 bytes each, the latter signed)
-- ARGV[2]         the version that all segments are to have
-- ARGV[3]         the stamp (4 bytes) that each bucket had when it was read
-- ARGV[4]         by how many entries and tombstones (4 bytes each, signed) each new version has more
-- ARGV[5]         the greatest sequence among the new entries
-- ARGV[6]         the epoch that the watermarks should have
-- ARGV[7]         the epoch of this server, "" for any
-- ARGV[8 ...]     the new versions
--
-- Returns the numbers, from 0, of the buckets that had changed and were left alone; -1 if a watermark or this server has another epoch; false
-- if a segment or a watermark is not there. Nothing is written in the two latter cases. Atomic as a whole.
--
-- Why stamps are compared: the client merged its entries into the buckets that it read. A bucket with another stamp has
-- entries that the client has not seen; the client reads it again. A purge that removed a tombstone has changed the stamp,
-- too: a client that read the bucket before cannot bring the key back (P30).
--
-- Why the server's epoch is compared, too: a server that comes back from the past has watermarks of its former life.
if not is_epoch(ARGV[7]) then
  return -1
end
local segments = #ARGV[1] / 20
local heads = redis.call('MGET', unpack(KEYS, 1, 2 * segments))
for position = 1, 2 * segments do
  if not heads[position] then
    return false
  end
end
for segment = 1, segments do
  if string.sub(heads[2 * segment], 9, 16) ~= ARGV[6] then
    return -1
  end
end
local refused, written, count = {}, {}, 0
local sequence, number = tonumber(ARGV[5]), 0
for segment = 1, segments do
  local state, watermark = heads[2 * segment - 1], heads[2 * segment]
  local version, own, all_entries, all_tombstones = struct.unpack('>c8I4i4i4', ARGV[1], 20 * segment - 19)
  local buckets, entries, tombstones = struct.unpack('>I4I8I8', state, 9)
  local before = count
  -- Calls into the server are most of a script's cost: buckets are looked at only if the segment was changed at all.
  -- Versions are random, so an equal one means equal buckets, also on a server that went back.
  local is_unchanged = string.sub(state, 1, 8) == version
  if is_unchanged then
    entries, tombstones = entries + all_entries, tombstones + all_tombstones
  end
  for bucket = number, number + own - 1 do
    local key, is_same = KEYS[2 * segments + 1 + bucket], is_unchanged
    if not is_same and redis.call('GETRANGE', key, 0, 3) == string.sub(ARGV[3], 4 * bucket + 1, 4 * bucket + 4) then
      local more_entries, more_tombstones = struct.unpack('>i4i4', ARGV[4], 8 * bucket + 1)
      entries, tombstones = entries + more_entries, tombstones + more_tombstones
      is_same = true
    end
    if is_same then
      written[count + 1] = key
      written[count + 2] = ARGV[8 + bucket]
      count = count + 2
    else
      -- No error, and no reason to refuse the rest: each bucket is a whole. The client merges this one again, on its
      -- new content.
      refused[#refused + 1] = bucket
    end
  end
  number = number + own
  if count > before then
    written[count + 1] = KEYS[2 * segment - 1]
    -- A new version even if some buckets were refused: clients that read before must look at the stamp of each bucket.
    written[count + 2] = ARGV[2] .. struct.pack('>I4I8I8', buckets, entries, tombstones)
    count = count + 2
    local applied, greatest = struct.unpack('>I4I4', watermark)
    -- Noted in one step with the entries, before any watermark counts them: if the log loses their commits, this tells
    -- (P14).
    if greatest < sequence then
      written[count + 1] = KEYS[2 * segment]
      written[count + 2] = struct.pack('>I4I4', applied, sequence) .. string.sub(watermark, 9)
      count = count + 2
    end
  end
end
if count > 0 then
  redis.call('MSET', unpack(written))
end
return refused
