-- Fill a partition that was just begun with what a checkpoint has: in numbered portions, each of
-- which counts once.

if num('loaded') >= A.number then return {digits(version)} end
begin()
set('loaded', A.number)

-- Hosts in the order of their numbers: {name, state or false, next_at, failures}.
for _, one in ipairs(A.hosts) do
  local host = host_of(one[1], true)
  if one[2] then
    call('HSET', P .. ':s', host.name, one[2])
    host.next_at, host.failures = one[3], one[4]
  end
end

-- URLs in their order of discovery: {id, record, host}. One that was leased waits again.
local archived = {}
for _, one in ipairs(A.urls) do
  local id, record, host = one[1], one[2], host_of(one[3])
  local state = string.byte(record, 1)
  if not R.exact then note_seen(id) end
  if state == DONE then
    host.done = host.done + 1
    if R.exact then put(id, record) else archived[#archived + 1] = id .. record end
  elseif state == DELAYED then
    local due = struct.unpack('<d', record, 39 + struct.unpack('<I3', record, 36))
    host.delayed = host.delayed + 1
    host.next_due = math.min(host.next_due, due)
    call('ZADD', P .. ':r:' .. host.number, string.format('%.17g', due), id)
    put(id, record)
  else
    put(id, with_state(record, WAITING))
    enqueue(host, string.byte(record, 4), id)
  end
end
each_many(P .. ':z', 'RPUSH', archived)
for _, one in ipairs(A.links) do call('HSET', P .. ':k', one[1], one[2]) end
each_many(P .. ':o', 'RPUSH', A.messages)
for _, one in ipairs(A.receipts) do call('HSET', P .. ':x', one[1], one[2]) end
for _, one in ipairs(A.numbers) do set(one[1], one[2]) end
write()
return {digits(version)}
