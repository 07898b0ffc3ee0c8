-- Gives a shard of format 2 its watermark, unless it has one: the least of its segments'. Takes the segments' own watermarks away.
--
-- KEYS[1]      the watermark                      KEYS[2 ...]  the states of the shard's segments
--
-- Returns 1. Atomic as a whole.
--
-- A process of an older version that has the index open finds its segments too short, and fails.
local least, greatest
for position = 2, #KEYS do
  local state = redis.call('GET', KEYS[position])
  if state and #state == 32 then
    local applied = struct.unpack('>I4', state, 29)
    -- The least counts: a sync repeats what any segment may lack, and the others take repeated entries as old ones.
    least, greatest = math.min(least or applied, applied), math.max(greatest or applied, applied)
    redis.call('SET', KEYS[position], string.sub(state, 1, 28))
  end
end
if least and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], struct.pack('>I4I4', least, greatest))
end
return 1
