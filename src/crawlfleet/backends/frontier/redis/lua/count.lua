-- All numbers, what is on its way to other partitions, and when the first comes whose time had not
-- come at `now`.

local next_due = math.huge
for _, name in ipairs({':t', ':g'}) do
  local first = call('ZRANGEBYSCORE', P .. name, '(' .. digits(A.now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] then next_due = math.min(next_due, tonumber(first[2])) end
end
local due = next_due < math.huge and string.format('%.17g', next_due) or false
return {digits(version), call('HGETALL', B), call('LLEN', P .. ':o'), due}
