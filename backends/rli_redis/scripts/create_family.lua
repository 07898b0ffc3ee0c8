-- Makes a family of empty buckets, unless it is there already.
--
-- KEYS[1]  the family's state            KEYS[2 ...]  all its buckets
-- ARGV[1]  an empty bucket               ARGV[2]  the family's version (8 bytes)
-- ARGV[3]  the commit sequence up to which it has the entries of all commits
--
-- Returns 1 if it was made, 0 if it was there. Atomic as a whole.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local written = { KEYS[1], ARGV[2] .. struct.pack('>I4I8I8I4', #KEYS - 1, 0, 0, ARGV[3]) }
for position = 2, #KEYS do
  written[#written + 1] = KEYS[position]
  written[#written + 1] = ARGV[1]
end
redis.call('MSET', unpack(written))
return 1
