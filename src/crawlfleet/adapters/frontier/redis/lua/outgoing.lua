-- Read the first messages to other partitions, and drop those that were handed over: all up to a
-- number, so that two who do so at once drop none that the other has not handed over.

local key = P .. ':o'
local gone = num('handed')
if A.handed > gone then
  begin()
  call('LTRIM', key, A.handed - gone, -1)
  set('handed', A.handed)
  write()
end
local messages = A.most > 0 and call('LRANGE', key, 0, A.most - 1) or {}
return {digits(version), digits(num('handed')), messages, call('LLEN', key)}
