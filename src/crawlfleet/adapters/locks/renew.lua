-- Begin the lease of a hold anew. KEYS: the lock.
-- ARGV: holder, token, for how many ms it is remembered. Answers 1 if it was held.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[1], 'holder', 'token', 'lease', 'until')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or tonumber(held[4]) <= now then
  return 0
end
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + tonumber(held[3])))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
