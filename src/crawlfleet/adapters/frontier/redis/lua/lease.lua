-- Give a worker URLs to visit: more of hosts that it has, and further hosts.

local worker, now = A.worker, A.now
local room = math.huge
if R.max_pages >= 0 then
  local allowed = A.partitions == 1 and R.max_pages or num('allowed') - num('back')
  room = allowed - num('pages') - num('leased')
end

local function bring_due(host, wanted)
  local key = P .. ':r:' .. host.number
  local ids = call('ZRANGEBYSCORE', key, '-inf', digits(now), 'LIMIT', 0, math.min(wanted, MANY))
  if #ids == 0 then return end
  begin()
  call('ZREM', key, unpack(ids))
  host.delayed = host.delayed - #ids
  put_back(host, ids)
  look_at_retries(host)
end

local function validator_of(id)
  return num('round') > 1 and call('HGET', P .. ':v', id) or false
end

-- Lease up to `wanted` URLs of a host; their records, and their ids.
local function take(host, wanted)
  if host.delayed > 0 and host.next_due <= now then bring_due(host, wanted) end
  local ids = {}
  while #ids < wanted and #host.ranks > 0 do
    local rank = string.byte(host.ranks, 1)
    local some = call('LPOP', queue_key(host, rank), math.min(wanted - #ids, MANY)) or {}
    for _, id in ipairs(some) do ids[#ids + 1] = id end
    if #some == 0 then host.ranks = string.sub(host.ranks, 2) end
  end
  if #ids == 0 then return ids, ids end
  each_many(P .. ':l:' .. host.number, 'SADD', ids)
  host.queued = host.queued - #ids
  host.leased = host.leased + #ids
  bump('leased', #ids)
  room = room - #ids
  fetch(ids)
  local given = {}
  for i, id in ipairs(ids) do
    local record = with_state(record_of(id), LEASED)
    put(id, record)
    given[i] = {id, record, validator_of(id)}
  end
  return given, ids
end

local MEMO = P .. ':c:' .. worker

-- The same once more, to one who did not get the answer.
local function again(memo)
  local leases = {}
  for _, entry in ipairs(memo) do
    local name, token, fresh, ids = unpack(entry)
    local host = host_of(name)
    if host and host.worker == worker and host.token == token then
      fetch(ids)
      local given = {}
      for i, id in ipairs(ids) do given[i] = {id, record_of(id), validator_of(id)} end
      local state = fresh and (call('HGET', P .. ':s', name) or '')
      leases[#leases + 1] = {name, digits(token), state, given}
    end
  end
  return leases
end

expire_all()
local memo = call('GET', MEMO)
memo = memo and cmsgpack.unpack(memo)
if memo and memo[1] == A.nonce then
  if begun then write() end
  return {digits(version), again(memo[2]), 0}
end
local leases, kept = {}, {}
local surplus = 0 -- hosts that it has beyond its share
if num('beginning') <= num('round') then
  for _, pair in ipairs(A.held) do
    local host = room > 0 and host_of(pair[1])
    if host and host.worker == worker and host.queued + host.delayed > 0 then
      begin()
      local given, ids = take(host, math.min(pair[2], room))
      if #given > 0 then
        leases[#leases + 1] = {host.name, digits(host.token), false, given}
        kept[#kept + 1] = {host.name, host.token, false, ids}
      end
    end
  end
  local most = A.hosts
  renew(worker)
  if A.partitions == 1 then
    -- No more than its share of the hosts that have work: the others are to get some.
    local workers = math.max(1, call('ZCARD', P .. ':w'))
    local all = call('ZCARD', P .. ':t') + num('lent')
    local more = math.ceil(all / workers) - call('SCARD', P .. ':m:' .. worker)
    most = math.min(most, more)
    surplus = math.max(0, -more)
  end
  if most > 0 and room > 0 and A.urls > 0 then
    local line = P .. ':t'
    for _, member in ipairs(call('ZRANGEBYSCORE', line, '-inf', digits(now), 'LIMIT', 0, most)) do
      if room <= 0 then break end
      begin()
      local host = host_of(string.sub(member, 7))
      call('ZREM', line, member)
      bump('token', 1)
      bump('lent', 1)
      host.when, host.worker, host.token = -1, worker, num('token')
      call('SADD', P .. ':m:' .. worker, host.name)
      local given, ids = take(host, math.min(A.urls, room))
      local state = call('HGET', P .. ':s', host.name) or ''
      leases[#leases + 1] = {host.name, digits(host.token), state, given}
      kept[#kept + 1] = {host.name, host.token, true, ids}
    end
  end
end
if #kept > 0 then call('SET', MEMO, cmsgpack.pack({A.nonce, kept})) end
if begun then write() end
return {digits(version), leases, surplus}
