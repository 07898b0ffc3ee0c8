-- Changes a control record if it has the expected value.
--
-- KEYS[1]  the records: name -> value; the field \255 counts the changes         KEYS[2]  their names, in order
-- KEYS[3]  the tokens of the last changes, the last one first
-- ARGV[1]  the name       ARGV[2]  "1" if a record is expected, else "0"        ARGV[3]  the value it should have
-- ARGV[4]  "1" if it is to be set, "0" if it is to be removed                   ARGV[5]  the value to set
-- ARGV[6]  a token of this change alone                                         ARGV[7]  how many tokens are kept
-- ARGV[8]  how many changes had been made before it, as many as are known of     ARGV[9]  "1" if it is sent again
-- ARGV[10] the epoch that the caller goes by, "" for any
--
-- Returns what came of it, the number of changes now, the token of the last one, and that of change ARGV[8] unless it is
-- kept no more or was lost. What came of it is 1 if the record was changed, by this call or by an earlier
-- one with the same token, 0 if not, -1 if nobody can tell, -2 if too much was changed since ARGV[8] for a first call, -3
-- if this is another epoch; false if there are no records. Atomic as a whole.
--
-- The first call, too, looks for its token: it may come after the second one, from a connection that was cut.
local seen = tonumber(ARGV[8])
local changes = tonumber(redis.call('HGET', KEYS[1], '\255') or '')
if not changes then
  return false
end
local function token_of(change)
  return change <= changes and redis.call('LINDEX', KEYS[3], changes - change)
end
local last, known = token_of(changes), token_of(seen)
-- If nothing was changed since the caller looked, no call with this token was made: the search is saved.
if changes ~= seen then
  -- The answer to an earlier call was lost. To compare again would find the caller's own value, and report a conflict.
  if redis.call('LPOS', KEYS[3], ARGV[6]) then
    return { 1, changes, last, known }
  end
  -- The token may have left the list. For a call that is sent again, nobody can tell then; a first call looks again,
  -- and comes back.
  if changes - seen > redis.call('LLEN', KEYS[3]) then
    return { ARGV[9] == '1' and -1 or -2, changes, last, known }
  end
end
-- Behind the search: a change that this server still knows stands, whatever life of the server it was made in.
if not is_epoch(ARGV[10]) then
  return { -3, changes, last, known }
end
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored ~= (ARGV[2] == '1' and ARGV[3]) then
  return { 0, changes, last, known }
end
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
  redis.call('ZADD', KEYS[2], 0, ARGV[1])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
-- Tokens and their count change in one step: the token of change n stands at place changes - n.
redis.call('LPUSH', KEYS[3], ARGV[6])
redis.call('LTRIM', KEYS[3], 0, ARGV[7] - 1)
return { 1, redis.call('HINCRBY', KEYS[1], '\255', 1), ARGV[6], known }
