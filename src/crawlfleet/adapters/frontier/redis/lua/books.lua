-- What all scripts of a partition share: its numbers, hosts and URLs, read when first asked for and
-- written once, at the end (`write`). A script that has no memory or no disk is refused by Redis at
-- the first thing that it writes (`begin`), or else done as a whole.
--
-- KEYS[1] is the prefix of the partition's keys, all of which have its hash tag:
--   :b  numbers of the books         :u  id -> URL record        :k  id -> links of a visited page
--   :h  host -> host record          :n  hosts by number         :s  host -> state, packed
--   :q:<host number>:<rank>  ids that wait, in order of discovery
--   :r:<host number>         ids that wait for their retry, by time
--   :l:<host number>         ids that are leased
--   :t  hosts that can be leased, by time and turn    :g  leased hosts that have retries, by time
--   :p  hosts by how much waits there
--   :w  workers by their deadline    :m:<worker>  hosts that a worker has leased
--   :c:<worker>  what it was given last, :d:<worker>  its last commits: it may ask again
--   :o  messages to other partitions :x  receipts     :v  validators for this round
--   :y  validators for the next one  :f:<stage>  bits of a Bloom filter
--   :z  records of visited URLs, where a Bloom filter keeps the ids
--   :j  steps as they were made, for the checkpoint
--   :a:<host number>  visited ids by place, while a round begins

local U, H = P .. ':u', P .. ':h'

-- The epoch tells whether these are the books that the caller opened, the version whether they
-- have gone back since it last saw them.
do
  local found = call('HMGET', B, 'epoch', 'version')
  version = tonumber(found[2]) or 0
  if found[1] ~= A.epoch then
    return redis.error_reply('CRAWLFLEET_LOST ' .. (found[1] and 'other' or 'none'))
  end
  if version < A.seen then
    return redis.error_reply('CRAWLFLEET_LOST back ' .. digits(version))
  end
end

local clock -- milliseconds of this server
do
  local time = call('TIME')
  clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Of the rules, max_depth, max_pages and max_per_host are -1 when there is none.
local stores_links = R.exact and R.max_depth >= 0

-- hosts ---------------------------------------------------------------------------------------

local REMEMBERED_S = 3600 -- far longer than anybody asks for an answer
local HOST = '<I4I4I4I4I4I4ddI6dI6Bc0'
local hosts, touched = {}, {}

-- The host; false when it is not known and not to be begun.
local function host_of(name, begin)
  local host = hosts[name]
  if host then return host end
  local packed = call('HGET', H, name)
  if packed then
    local number, queued, delayed, leased, done, failures, next_at, next_due, token, when, turn,
      worker, at = struct.unpack(HOST, packed)
    host = {
      name = name, number = number, queued = queued, delayed = delayed, leased = leased,
      done = done, failures = failures, next_at = next_at, next_due = next_due, token = token,
      when = when, turn = turn, worker = worker, ranks = string.sub(packed, at),
      listed = worker ~= '' and delayed > 0, packed = packed, was_waiting = queued + delayed,
    }
  elseif begin then
    host = {
      name = name, number = num('hosts'), queued = 0, delayed = 0, leased = 0, done = 0,
      failures = 0, next_at = 0, next_due = math.huge, token = 0, when = -1, turn = 0, worker = '',
      ranks = '', new = true, was_waiting = 0,
    }
    bump('hosts', 1)
  else
    return false
  end
  hosts[name] = host
  touched[#touched + 1] = host
  return host
end

-- From when on it can be leased; -1 when it has nothing to visit, or is leased.
local function ready_at(host)
  if host.worker ~= '' then return -1 end
  if host.queued > 0 then return host.next_at end
  if host.delayed > 0 then return math.max(host.next_at, host.next_due) end
  return -1
end

local function place_in_line(host)
  local when = ready_at(host)
  if when == host.when then return end
  local line = P .. ':t'
  if host.when >= 0 then call('ZREM', line, struct.pack('>I6', host.turn) .. host.name) end
  host.when = when
  if when >= 0 then
    bump('turn', 1)
    host.turn = num('turn')
    call('ZADD', line, string.format('%.17g', when), struct.pack('>I6', host.turn) .. host.name)
  end
end

local function look_at_retries(host)
  local first = call('ZRANGE', P .. ':r:' .. host.number, 0, 0, 'WITHSCORES')
  host.next_due = first[2] and tonumber(first[2]) or math.huge
end

local function write_host(host)
  if host.new then call('RPUSH', P .. ':n', host.name) end
  if host.worker ~= '' and host.delayed > 0 then
    call('ZADD', P .. ':g', string.format('%.17g', host.next_due), host.name)
  elseif host.listed then
    call('ZREM', P .. ':g', host.name)
  end
  place_in_line(host)
  local waiting = host.queued + host.delayed
  if waiting ~= host.was_waiting then
    if waiting > 0 then
      call('ZADD', P .. ':p', waiting, host.name)
    else
      call('ZREM', P .. ':p', host.name)
    end
  end
  local packed = struct.pack(
    '<I4I4I4I4I4I4ddI6dI6B', host.number, host.queued, host.delayed, host.leased, host.done,
    host.failures, host.next_at, host.next_due, host.token, host.when, host.turn, #host.worker
  ) .. host.worker .. host.ranks
  if packed ~= host.packed then call('HSET', H, host.name, packed) end
end

-- URLs ----------------------------------------------------------------------------------------

-- state, depth, rank, hops, attempts, place, host number, found at, found in partition, found on
-- page, whether the host is left out of the URL, URL; then, of one that was visited, when it is
-- due, when it was visited, status, outcome and note. A rank is 127 less the priority.
local WAITING, LEASED, DELAYED, DONE = 0, 1, 2, 3
local records, fresh = {}, {}

local function record_of(id)
  local record = records[id]
  if record == nil then
    record = call('HGET', U, id)
    records[id] = record
  end
  return record
end

-- Read the records of many ids at once.
local function fetch(ids)
  local wanted = {}
  for i = 1, #ids do
    if records[ids[i]] == nil then wanted[#wanted + 1] = ids[i] end
    if #wanted == MANY or (i == #ids and #wanted > 0) then
      local found = call('HMGET', U, unpack(wanted))
      for j = 1, #wanted do records[wanted[j]] = found[j] end
      wanted = {}
    end
  end
end

local function put(id, record)
  records[id] = record
  fresh[id] = true
end

local function depth_of(record)
  return (struct.unpack('<H', record, 2))
end

local function place_of(record)
  return (struct.unpack('<I5', record, 8))
end

local function with_state(record, state)
  return string.char(state) .. string.sub(record, 2)
end

-- The record without what its last visit left.
local function plain(record)
  local length = struct.unpack('<I3', record, 36)
  return string.sub(record, 1, 38 + length)
end

local function visited(record, state, attempts, due, at, status, outcome, note)
  return string.char(state) .. string.sub(record, 2, 5) .. struct.pack('<H', math.min(attempts, 65535))
    .. string.sub(plain(record), 8) .. struct.pack('<ddHB', due, at, status, #outcome) .. outcome .. note
end

-- queues --------------------------------------------------------------------------------------

local behind = {} -- key -> ids to be put behind what waits

local function has_rank(host, rank)
  local byte = string.char(rank)
  for i = 1, #host.ranks do
    local other = string.byte(host.ranks, i)
    if other == rank then return end
    if other > rank then
      host.ranks = string.sub(host.ranks, 1, i - 1) .. byte .. string.sub(host.ranks, i)
      return
    end
  end
  host.ranks = host.ranks .. byte
end

local function queue_key(host, rank)
  return P .. ':q:' .. host.number .. ':' .. rank
end

local function enqueue(host, rank, id)
  has_rank(host, rank)
  local key = queue_key(host, rank)
  local ids = behind[key]
  if not ids then
    ids = {}
    behind[key] = ids
  end
  ids[#ids + 1] = id
  host.queued = host.queued + 1
end

local function each_many(key, command, values)
  for i = 1, #values, MANY do
    call(command, key, unpack(values, i, math.min(i + MANY - 1, #values)))
  end
end

-- Let ids wait where they would if they had never been taken: before all that was found later.
local function put_back(host, ids)
  begin()
  fetch(ids)
  local by_rank = {}
  for _, id in ipairs(ids) do
    local record = record_of(id)
    local rank = string.byte(record, 4)
    by_rank[rank] = by_rank[rank] or {}
    table.insert(by_rank[rank], {place_of(record), id})
    put(id, with_state(record, WAITING))
  end
  for rank, entries in pairs(by_rank) do
    local last = 0
    for _, entry in ipairs(entries) do last = math.max(last, entry[1]) end
    local key = queue_key(host, rank)
    for _ = 1, 1000 do
      local first = call('LINDEX', key, 0)
      if not first or place_of(record_of(first)) > last then break end
      call('LPOP', key)
      entries[#entries + 1] = {place_of(record_of(first)), first}
      host.queued = host.queued - 1
    end
    table.sort(entries, function(one, other) return one[1] > other[1] end)
    local sorted = {}
    for i, entry in ipairs(entries) do sorted[i] = entry[2] end
    each_many(key, 'LPUSH', sorted)
    has_rank(host, rank)
    host.queued = host.queued + #sorted
  end
end

-- leases --------------------------------------------------------------------------------------

local function take_back(host)
  begin()
  local key = P .. ':l:' .. host.number
  local ids = call('SMEMBERS', key)
  if #ids > 0 then
    put_back(host, ids)
    call('DEL', key)
    bump('leased', -#ids)
    host.leased = 0
  end
  call('SREM', P .. ':m:' .. host.worker, host.name)
  host.worker = ''
  bump('lent', -1)
  place_in_line(host)
end

local function forget(worker)
  begin()
  local key = P .. ':m:' .. worker
  for _, name in ipairs(call('SMEMBERS', key)) do
    local host = host_of(name)
    if host and host.worker == worker then take_back(host) end
  end
  call('DEL', key, P .. ':c:' .. worker)
  -- Its last steps are remembered: it may still ask whether one that was not answered was done.
  call('EXPIRE', P .. ':d:' .. worker, REMEMBERED_S)
  call('ZREM', P .. ':w', worker)
end

-- End the leases of a worker that was not heard of in time.
local function expire(worker)
  local deadline = tonumber(call('ZSCORE', P .. ':w', worker) or clock)
  if deadline < clock then forget(worker) end
end

local function expire_all()
  for _, worker in ipairs(call('ZRANGEBYSCORE', P .. ':w', '-inf', '(' .. digits(clock))) do
    forget(worker)
  end
end

-- Not each time: it costs a write.
local function renew(worker)
  local deadline = tonumber(call('ZSCORE', P .. ':w', worker) or 0)
  if deadline - clock > A.lease_ms * 0.8 then return end
  call('ZADD', P .. ':w', digits(clock + A.lease_ms), worker)
end

-- the end -------------------------------------------------------------------------------------

-- Write all that has changed.
local function write()
  begin()
  for key, ids in pairs(behind) do each_many(key, 'RPUSH', ids) end
  for _, host in ipairs(touched) do write_host(host) end
  local pairs_ = {}
  for id in pairs(fresh) do
    pairs_[#pairs_ + 1] = id
    pairs_[#pairs_ + 1] = records[id]
    if #pairs_ >= MANY then
      call('HSET', U, unpack(pairs_))
      pairs_ = {}
    end
  end
  if #pairs_ > 0 then call('HSET', U, unpack(pairs_)) end
  write_numbers()
end
