-- Notes in the watermarks of shards that they have the entries of all commits up to one, if they have lost nothing meanwhile.
--
-- KEYS[1 ...]  the watermarks: applied (4 bytes), the greatest sequence that was ever written (4 bytes), the epoch
-- ARGV[1]      the incarnation of the server that the entries were written to
-- ARGV[2]      the sequence up to which each shard has to have the entries of all commits already
-- ARGV[3]      the sequence to note
--
-- Returns 1 if all shards have this sequence or a greater one now, 0 if this is another server, or the same one after
-- it was started again or followed another, or if a shard went back; false if a watermark is not there.
-- Atomic as a whole.
--
-- Why the incarnation is compared here: a server that was started again since the entries were written may have lost them.
if incarnation() ~= ARGV[1] then
  return 0
end
local written = {}
for _, key in ipairs(KEYS) do
  local watermark = redis.call('GET', key)
  if not watermark then
    return false
  end
  local applied, greatest = struct.unpack('>I4I4', watermark)
  -- The shard lacks entries of commits that the caller took for applied. A watermark beyond them would hide the gap
  -- (P14).
  if applied < tonumber(ARGV[2]) then
    return 0
  end
  -- Never lowered: another process may have noted a later commit.
  if applied < tonumber(ARGV[3]) then
    written[#written + 1] = key
    written[#written + 1] = struct.pack('>I4I4', ARGV[3], greatest) .. string.sub(watermark, 9)
  end
end
if #written > 0 then
  redis.call('MSET', unpack(written))
end
return 1
