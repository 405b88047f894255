-- What becomes of a link. One is taken in once; when it is met nearer to the seeds than before, its
-- depth falls, and if it was visited already and the crawl is limited in depth, what it links to is
-- met again. What belongs to another partition becomes a message to it, which stays here until that
-- partition has it.
-- A link is {id, url, host, rank, partition}, and the depth at which the worker knows that another
-- partition was told of it, if it does. The links of a page that lay too deep come packed by
-- the worker, in a tenth of the memory; only a worker can unpack them.

local outgoing = {}
local found_new = 0

-- What this step changes, for the checkpoint: pieces as `steps.py` reads them.
local URL, HOST_NAME, TOUCHED, RECEIPT, NUMBER, KEPT_LINKS, MESSAGE, WRITER = 1, 2, 3, 4, 5, 6, 7, 8
local journals = num('journal') == 1
local head, noted = {}, {}

local function piece(kind, key, value)
  return struct.pack('<BHI4', kind, #key, #value) .. key .. value
end

local function note(kind, key, value)
  if journals then noted[#noted + 1] = piece(kind, key, value) end
end

-- The same of what is looked for before the rest is read.
local function note_first(kind, key, value)
  if journals then head[#head + 1] = piece(kind, key, value) end
end

local function write_journal()
  for id in pairs(fresh) do note(URL, id, records[id]) end
  for _, host in ipairs(touched) do
    if host.new then note(HOST_NAME, struct.pack('<I4', host.number), host.name) end
  end
  for _, message in ipairs(outgoing) do note(MESSAGE, '', message) end
  bump('journaled', 1)
  for name in pairs(changed) do note(NUMBER, name, digits(N[name])) end
  begin()
  call('RPUSH', P .. ':j', table.concat(head) .. table.concat(noted))
end

-- {to, kind, …}: 'L' a link that was found, 'D' a URL that may be known there and is nearer now.
local function tell(message)
  outgoing[#outgoing + 1] = cmsgpack.pack(message)
end

-- Let a worker unpack links, and tell of each to its partition. No message of the other kinds begins
-- with this byte.
local function let_unpack(packed, depth, page, at)
  outgoing[#outgoing + 1] = struct.pack('>BHHdc8', 193, A.partition, depth, at, page) .. packed
end

local function taken_in(host)
  return host and host.queued + host.delayed + host.leased + host.done or 0
end

local function take_in(link, depth, hops, from, page, at)
  local id, url, name, rank = link[1], link[2], link[3], link[4]
  local host = host_of(name, true)
  local length = (string.find(name, '#', 1, true) or #name + 1) - 1 -- of the host without its part
  local left_out = string.sub(url, 1, length) == string.sub(name, 1, length)
  local text = left_out and string.sub(url, length + 1) or url
  bump('place', 1)
  put(id, struct.pack('<BHBBHI5I4dHc8BI3', WAITING, math.min(depth, 65535), rank,
    math.min(hops, 255), 0, num('place'), host.number, at, from, page, left_out and 1 or 0, #text) .. text)
  enqueue(host, rank, id)
  if not R.exact then note_seen(id) end
  found_new = found_new + 1
  bump('known', 1)
  bump('added', 1)
  bump('d:' .. digits(depth), 1)
end

local lower

-- Whether it is known then.
local function meet(link, depth, hops, from, page, at)
  local id = link[1]
  if R.exact then
    local record = record_of(id)
    if record then
      if depth_of(record) > depth then lower(id, depth, at) end
      return true
    end
  elseif may_be_seen(id) then
    return true
  end
  if R.max_per_host >= 0 and taken_in(host_of(link[3])) >= R.max_per_host then
    bump('dropped', 1)
    return false
  end
  take_in(link, depth, hops, from, page, at)
  return true
end

-- Meet a link here or let its partition know. A redirect is as deep as what led to it.
local function pass_on(link, depth, hops, page, at)
  if link[5] == A.partition then return meet(link, depth, hops, A.partition, page, at) end
  if link[6] and link[6] <= depth then return true end
  tell({link[5], 'L', depth, link[1], link[2], link[3], link[4], hops, A.partition, page, at})
  return true
end

-- The links of a page, for when its depth falls: the ids of those here and there whose depth may
-- fall too; or all of them, packed, where they lay too deep.
local LINKS = P .. ':k'
local stored = {}

local function links_of(id)
  local links = stored[id]
  if links == nil then
    local packed = call('HGET', LINKS, id)
    links = packed and cmsgpack.unpack(packed) or false
    stored[id] = links
  end
  return links
end

-- Nothing that is linked from a page below the seeds comes nearer than this.
local NEAREST = 1

local function may_fall(id)
  local record = record_of(id)
  return record and depth_of(record) > NEAREST
end

local function store(id, links)
  stored[id] = links
  begin()
  local packed = cmsgpack.pack(links)
  call('HSET', LINKS, id, packed)
  note(KEPT_LINKS, id, packed)
end

-- Meet the links of a visited page that is at `depth` now; adds to `falling` what falls too.
local function reopen(id, depth, at, falling)
  local links = links_of(id)
  if not links then return end
  if links.packed then
    let_unpack(links.packed, depth + 1, id, at)
  else
    for _, pair in ipairs(links.there) do tell({pair[1], 'D', pair[2], depth + 1, at}) end
    for _, other in ipairs(links.here) do falling[#falling + 1] = {other, depth + 1} end
  end
  if links.moved then
    local to, other = links.moved[1], links.moved[2]
    if to == A.partition then
      falling[#falling + 1] = {other, depth}
    else
      tell({to, 'D', other, depth, at})
    end
  end
end

lower = function(id, depth, at)
  local falling = {{id, depth}}
  local i = 1
  while i <= #falling do
    local one, nearer = falling[i][1], falling[i][2]
    local record = record_of(one)
    if record then
      local before = depth_of(record)
      if before > nearer then
        put(one, string.sub(record, 1, 1) .. struct.pack('<H', nearer) .. string.sub(record, 4))
        bump('d:' .. digits(before), -1)
        bump('d:' .. digits(nearer), 1)
        if stores_links then reopen(one, nearer, at, falling) end
      end
    end
    i = i + 1
  end
end

-- Whether the links of a visited page have to come packed.
local function wants_packed(depth)
  return stores_links and depth > 0 and depth >= R.max_depth
end

-- The links, or all of them packed, and the redirect of a page that was just visited.
local function follow(id, depth, hops, links, redirect, at)
  local keeps = stores_links and depth > 0
  local is_packed = type(links) == 'string'
  local too_deep = R.max_depth >= 0 and depth >= R.max_depth
  local here, there = {}, {}
  if is_packed then
    -- It may have come nearer since they were packed.
    if not too_deep then let_unpack(links, depth + 1, id, at) end
  elseif not too_deep then
    for _, link in ipairs(links) do
      pass_on(link, depth + 1, 0, id, at)
      if keeps and link[5] ~= A.partition then
        there[#there + 1] = {link[5], link[1]}
      elseif keeps and may_fall(link[1]) then
        here[#here + 1] = link[1]
      end
    end
  end
  if redirect then pass_on(redirect, depth, hops + 1, id, at) end
  if keeps and (is_packed or #here > 0 or #there > 0 or redirect) then
    local moved = redirect and {redirect[5], redirect[1]} or false
    store(id, {here = here, there = there, packed = is_packed and links, moved = moved})
  end
end

local function write_intake()
  if not R.exact and found_new > 0 then bump('lost', found_new * present_error()) end
  if #outgoing > 0 then
    begin()
    each_many(P .. ':o', 'RPUSH', outgoing)
  end
  if journals then write_journal() end
  write()
end
