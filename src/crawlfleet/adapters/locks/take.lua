-- Hold a lock, or hear who does.
-- KEYS: the lock. ARGV: holder, lease in ms, floor of the token, after how many ms it may be forgotten.
-- Answers {1, token}, or {0, token, holder, ms until it is free}.
local lock, holder, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local held = redis.call('HMGET', lock, 'holder', 'token', 'lease', 'until')
local token, over = tonumber(held[2] or 0), tonumber(held[4] or 0)
if held[3] and over > now + tonumber(held[3]) then
  -- No lease is longer than itself, unless the clock was set back: it begins anew.
  over = now + tonumber(held[3])
  redis.call('HSET', lock, 'until', over)
end
if over > now and held[1] ~= holder then
  return {0, token, held[1], over - now}
end
if over <= now then
  token = math.max(token + 1, micros, tonumber(ARGV[3]))
end
redis.call('HSET', lock, 'holder', holder, 'token', string.format('%.0f', token),
           'lease', lease, 'until', string.format('%.0f', now + lease))
redis.call('PEXPIRE', lock, ARGV[4])
return {1, token}
