-- Who holds a lock. KEYS: the lock. Answers {token, holder, ms until it is free}, or nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[1], 'holder', 'token', 'until')
if not held[1] or tonumber(held[3]) <= now then
  return false
end
return {tonumber(held[2]), held[1], tonumber(held[3]) - now}
