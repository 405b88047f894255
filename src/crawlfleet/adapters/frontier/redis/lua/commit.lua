-- One step of a crawl: what happened to URLs of hosts of this partition, and what was staged.

-- One who did not get the answer asks again, with the same nonce: it was done.
local MEMO = P .. ':d:' .. A.worker
for _, nonce in ipairs(call('LRANGE', MEMO, 0, -1)) do
  if nonce == A.nonce then return {digits(version), {}, call('LLEN', P .. ':o'), 0, {}} end
end
if A.worker ~= '' then expire(A.worker) end
local refused = {}
for _, part in ipairs(A.parts) do
  local host = host_of(part[1])
  if not host or host.worker ~= A.worker or host.token ~= part[2] then
    refused[#refused + 1] = part[1]
  end
end
if #refused > 0 then
  if begun then write() end
  return {digits(version), refused, call('LLEN', P .. ':o'), 0, {}}
end

-- The record of a URL that is leased from this host, and not spoken of yet.
local function leased(host, id)
  local record = record_of(id)
  if not record or string.byte(record, 1) ~= LEASED then return false end
  if struct.unpack('<I4', record, 13) ~= host.number then return false end
  return record
end

local ids = {}
for _, part in ipairs(A.parts) do
  for _, visit in ipairs(part[3]) do
    ids[#ids + 1] = visit[1]
    if R.exact and type(visit[5]) == 'table' then
      for _, link in ipairs(visit[5]) do
        if link[5] == A.partition then ids[#ids + 1] = link[1] end
      end
    end
  end
  for _, retry in ipairs(part[4]) do ids[#ids + 1] = retry[1] end
  for _, id in ipairs(part[5]) do ids[#ids + 1] = id end
end
fetch(ids)

-- Pages whose links have to be packed first: then nothing is done yet.
local to_pack = {}
if stores_links then
  for _, part in ipairs(A.parts) do
    for _, visit in ipairs(part[3]) do
      local record = type(visit[5]) == 'table' and #visit[5] > 0 and leased(host_of(part[1]), visit[1])
      if record and wants_packed(depth_of(record)) then to_pack[#to_pack + 1] = visit[1] end
    end
  end
  if #to_pack > 0 then
    if begun then write() end
    return {digits(version), {}, 0, 0, to_pack}
  end
end

begin()
if #A.parts > 0 then renew(A.worker) end

local over = {} -- host number -> ids whose leases end

local function finish(host, id)
  over[host.number] = over[host.number] or {}
  table.insert(over[host.number], id)
  host.leased = host.leased - 1
  bump('leased', -1)
end

local done = {}
for _, part in ipairs(A.parts) do
  local host = host_of(part[1])
  for _, visit in ipairs(part[3]) do
    local id, outcome, status, at, _, _, counts, validator, note = unpack(visit)
    local record = leased(host, id)
    if record then
      local attempts = struct.unpack('<H', record, 6) + 1
      put(id, visited(record, DONE, attempts, 0, at, status, outcome, note))
      finish(host, id)
      host.done = host.done + 1
      bump('done', 1)
      bump('ended', 1)
      bump('o:' .. outcome, 1)
      if counts then bump('pages', 1) end
      if validator then
        call('HSET', P .. ':y', id, validator)
      elseif num('round') > 1 then
        call('HDEL', P .. ':y', id)
      end
      done[#done + 1] = visit
    end
  end
  for _, retry in ipairs(part[4]) do
    local id, outcome, status, at, due, note = unpack(retry)
    local record = leased(host, id)
    if record then
      local attempts = struct.unpack('<H', record, 6) + 1
      put(id, visited(record, DELAYED, attempts, due, at, status, outcome, note))
      finish(host, id)
      host.delayed = host.delayed + 1
      host.next_due = math.min(host.next_due, due)
      call('ZADD', P .. ':r:' .. host.number, string.format('%.17g', due), id)
    end
  end
  local returned = {}
  for _, id in ipairs(part[5]) do
    if leased(host, id) then
      finish(host, id)
      returned[#returned + 1] = id
      put(id, with_state(record_of(id), WAITING))
    end
  end
  if #returned > 0 then put_back(host, returned) end
  if part[6] then
    call('HSET', P .. ':s', host.name, part[6])
    note_first(TOUCHED, host.name, '')
    host.next_at, host.failures = part[7], part[8]
  end
end
for number, some in pairs(over) do each_many(P .. ':l:' .. number, 'SREM', some) end

for _, visit in ipairs(done) do
  local record = record_of(visit[1])
  follow(visit[1], depth_of(record), string.byte(record, 5), visit[5], visit[6], visit[4])
end
if not R.exact then
  -- A filter knows them from now on; what `explain` says of them lies behind one another.
  local ended, old = {}, {}
  for i, visit in ipairs(done) do
    local id = visit[1]
    old[i], ended[i] = id, id .. record_of(id)
    note(URL, id, record_of(id))
    records[id], fresh[id] = nil, nil
  end
  each_many(U, 'HDEL', old)
  each_many(P .. ':z', 'RPUSH', ended)
end
for _, part in ipairs(A.parts) do
  local host = host_of(part[1])
  if part[9] and host.worker == A.worker then take_back(host) end
end
for _, receipt in ipairs(A.receipts) do
  call('HSET', P .. ':x', receipt[1], receipt[2])
  note(RECEIPT, receipt[1], receipt[2])
end
note_first(WRITER, A.writer, digits(A.step))
call('LPUSH', MEMO, A.nonce)
call('LTRIM', MEMO, 0, 15)
call('PERSIST', MEMO)
write_intake()
return {digits(version), refused, call('LLEN', P .. ':o'), warned and 1 or 0, {}}
