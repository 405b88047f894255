-- All numbers, what is on its way to other partitions, when the first comes whose time had not come
-- at `now`, and what executions have noted of their part.

local next_due = math.huge
for _, name in ipairs({':t', ':g'}) do
  local first = call('ZRANGEBYSCORE', P .. name, '(' .. digits(A.now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] then next_due = math.min(next_due, tonumber(first[2])) end
end
local due = next_due < math.huge and string.format('%.17g', next_due) or false
local receipts, notes = call('HGETALL', P .. ':x'), {}
for i = 1, #receipts, 2 do
  local name = receipts[i]
  if name == A.notes or string.sub(name, 1, #A.notes + 1) == A.notes .. '@' then
    notes[#notes + 1] = name
    notes[#notes + 1] = receipts[i + 1]
  end
end
return {digits(version), call('HGETALL', B), call('LLEN', P .. ':o'), due, notes}
