-- Reads control records in the order of their names, and what tells whether changes were lost.
--
-- KEYS[1]  the records: name -> value         KEYS[2]  their names, in order
-- KEYS[3]  the tokens of the last changes, the last one first
-- ARGV[1]  the first name and ARGV[2] the last one, as ZRANGEBYLEX takes them         ARGV[3]  how many at most
-- ARGV[4]  after how many bytes of values no further record is read
-- ARGV[5]  how many changes are known of
--
-- Returns the number of changes now, the token of the last one, that of change ARGV[5] unless it is kept no more or was
-- lost, 1 if there may be more records, else 0, then name, value, name, value ...; false if the records or their names
-- are not all there. Atomic as a whole.
local changes = tonumber(redis.call('HGET', KEYS[1], '\255') or '')
-- The count of changes is a field without a name in the order. Any other difference means that one of the keys was lost
-- alone.
if not changes or redis.call('HLEN', KEYS[1]) ~= redis.call('ZCARD', KEYS[2]) + 1 then
  return false
end
local behind = changes - tonumber(ARGV[5])
local known = behind >= 0 and redis.call('LINDEX', KEYS[3], behind)
local found = { changes, redis.call('LINDEX', KEYS[3], 0), known, 0 }
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local room = tonumber(ARGV[4])
for position, name in ipairs(names) do
  local value = redis.call('HGET', KEYS[1], name)
  found[#found + 1] = name
  found[#found + 1] = value
  -- Counted after the record: each call gives one at least, so a reader of large records comes to an end.
  room = room - #value
  if room <= 0 or position == tonumber(ARGV[3]) then
    found[4] = 1
    break
  end
end
return found
