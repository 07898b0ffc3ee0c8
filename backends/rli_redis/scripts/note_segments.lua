-- Adds to the list of segments, if the server is the one that the segments were made under.
--
-- KEYS[1]      the list         ARGV[1]  the epoch, "" for any         ARGV[2 ...]  the members
--
-- Returns 1, or -1 if this server has another epoch. Atomic as a whole.
--
-- Why the epoch is compared: a server that went back may have lost the segments. A list that names them would show them
-- as lost for ever, once the watermarks have passed the sequences of their making (P33).
if not is_epoch(ARGV[1]) then
  return -1
end
-- Singly: there may be more of them than a call takes.
for position = 2, #ARGV do
  redis.call('SADD', KEYS[1], ARGV[position])
end
return 1
