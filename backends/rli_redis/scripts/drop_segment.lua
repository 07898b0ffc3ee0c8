-- Takes a segment out of use: from now on no bucket of it is written any more.
--
-- KEYS[1]  the segment's state         KEYS[2]  where the state is kept until all buckets are removed
--
-- Returns how many buckets there may be, 0 if there is no segment. Atomic as a whole.
--
-- Why the state is renamed first: writers need the state, so they fail from now on; its copy still tells how many buckets
-- are left to remove, should this process die.
local function buckets_of(key)
  local state = redis.call('GET', key)
  return state and (struct.unpack('>I4', state, 9)) or 0
end
-- Both are there where a segment was made by someone who did not know that the index was being dropped.
local used, left = buckets_of(KEYS[1]), buckets_of(KEYS[2])
if used > left then
  redis.call('RENAME', KEYS[1], KEYS[2])
elseif used > 0 then
  redis.call('UNLINK', KEYS[1])
end
return math.max(used, left)
