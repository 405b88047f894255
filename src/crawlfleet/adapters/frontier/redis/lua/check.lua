-- Whether the books are still those that the caller knows; and the hosts with the most waiting,
-- if it wants to know, or else others.

local names = {}
if A.busiest > 0 then
  names = call('ZREVRANGE', P .. ':p', 0, A.busiest - 1)
  for i = 0, math.min(A.busiest, num('hosts')) - 1 do
    if #names >= A.busiest then break end
    local name = call('LINDEX', P .. ':n', i)
    if host_of(name).queued + host_of(name).delayed == 0 then names[#names + 1] = name end
  end
end
local found = {}
for i, name in ipairs(names) do found[i] = {name, call('HGET', H, name)} end
return {digits(version), found}
