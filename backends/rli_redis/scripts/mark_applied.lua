-- Notes in families that they have the entries of all commits up to one, if they have lost nothing meanwhile.
--
-- KEYS[1 ...]  the families' states
-- ARGV[1]      the incarnation of the server that the entries were written to
-- ARGV[2]      the sequence up to which each family has to have the entries of all commits already
-- ARGV[3]      the sequence to note
--
-- Returns 1 if all families have this sequence or a greater one now, 0 if this is another server, or the same one after
-- it was started again or followed another, or if a family went back; false if a family is not there.
-- Atomic as a whole.
local incarnation = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
if incarnation ~= ARGV[1] then
  return 0
end
local written = {}
for _, key in ipairs(KEYS) do
  local state = redis.call('GET', key)
  if not state then
    return false
  end
  local applied = struct.unpack('>I4', state, 29)
  if applied < tonumber(ARGV[2]) then
    return 0
  end
  if applied < tonumber(ARGV[3]) then
    written[#written + 1] = key
    written[#written + 1] = string.sub(state, 1, 28) .. struct.pack('>I4', ARGV[3])
  end
end
if #written > 0 then
  redis.call('MSET', unpack(written))
end
return 1
