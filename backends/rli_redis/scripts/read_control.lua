-- Reads control records, and what tells whether changes were lost.
--
-- KEYS[1]  the records: name -> value; the field \255 counts the changes
-- KEYS[2]  the tokens of the last changes, the last one first
-- ARGV[1]  how many changes are known of       ARGV[2]  the first name       ARGV[3]  the second one ...
--
-- Returns the number of changes now, the token of the last one, that of change ARGV[1] unless it is kept no more or was
-- lost, then the value of each record or false; false if there are no records. Atomic as a whole.
local found = redis.call('HMGET', KEYS[1], '\255', unpack(ARGV, 2))
local changes = tonumber(found[1] or '')
if not changes then
  return false
end
local behind = changes - tonumber(ARGV[1])
return {
  changes,
  redis.call('LINDEX', KEYS[2], 0),
  behind >= 0 and redis.call('LINDEX', KEYS[2], behind),
  unpack(found, 2),
}
