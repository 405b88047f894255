-- Read the first steps that the checkpoint does not have, and drop those that it has: all up to a
-- number, so that what is asked twice drops nothing more. Behind them, how many steps were made and
-- how many messages to other partitions have reached them.

local key = P .. ':j'
local gone = num('journal_gone')
if A.taken > gone then
  begin()
  call('LTRIM', key, A.taken - gone, -1)
  set('journal_gone', A.taken)
  write()
end
local steps = A.most > 0 and call('LRANGE', key, 0, A.most - 1) or {}
local states = {}
for i, name in ipairs(A.hosts) do states[i] = call('HGET', P .. ':s', name) end
return {
  digits(version), digits(num('journal_gone')), steps, digits(num('journaled')),
  digits(num('handed')), states,
}
