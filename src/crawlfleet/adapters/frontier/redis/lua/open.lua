-- Begin the books of a partition, or read what is there. Without an epoch to begin with nothing is
-- written.
local call = redis.call
local B = KEYS[1] .. ':b'
local A = cmsgpack.unpack(ARGV[1])

if A.begin ~= '' and call('EXISTS', B) == 0 then
  call('HSET', B, 'epoch', A.begin, 'format', A.format, 'version', '0', 'round', '1',
    'rules', A.rules, 'partitions', A.partitions, 'journal', A.journal)
end
if A.made then call('HSET', B, 'made', '1') end
local found = call('HMGET', B, 'epoch', 'format', 'rules', 'partitions', 'made', 'version', 'round')
return {found, call('HGETALL', KEYS[1] .. ':x')}
