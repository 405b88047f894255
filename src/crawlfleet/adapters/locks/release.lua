-- Give up a hold; its token stays. KEYS: the lock. ARGV: holder, token. Answers 1 if it was held.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[1], 'holder', 'token', 'until')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or tonumber(held[3]) <= now then
  return 0
end
redis.call('HSET', KEYS[1], 'until', 0)
return 1
