-- Comes before scripts that compare incarnations: the life of this server. No script of its own.
--
-- It is another one after the server was started again, or followed another one. Both may have cost it its last changes.
local function incarnation()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
    .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
end
-- Whether an epoch is that of this server; "" is that of any.
local function is_epoch(epoch)
  return epoch == '' or string.sub(redis.sha1hex(incarnation()), 1, #epoch) == epoch
end
