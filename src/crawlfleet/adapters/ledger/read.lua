-- Entries as they are, and the server's clock. KEYS: the mark, then the entries.
-- ARGV: the mark to set where there is none.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local born = redis.call('GET', KEYS[1])
if not born then
  born = string.format('%.6f', now)
  redis.call('SET', KEYS[1], born)
end
local found = {string.format('%.6f', now), born}
for number = 2, #KEYS do
  found[number + 1] = redis.call('GET', KEYS[number])
end
return found
