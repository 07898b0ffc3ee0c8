-- Reads control records in the order of their names.
--
-- KEYS[1]  the records: name -> value         KEYS[2]  their names, in order
-- ARGV[1]  the first name and ARGV[2] the last one, as ZRANGEBYLEX takes them         ARGV[3]  how many at most
--
-- Returns name, value, name, value ...; false if the records or their names are not all there. Atomic as a whole.
if redis.call('HLEN', KEYS[1]) ~= redis.call('ZCARD', KEYS[2]) + 1 then
  return false
end
local found = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  found[#found + 1] = name
  found[#found + 1] = redis.call('HGET', KEYS[1], name)
end
return found
