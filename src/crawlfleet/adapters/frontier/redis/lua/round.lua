-- The steps by which all that was visited is let wait again.

local round = A.round
if num('round') >= round then return {digits(version), 0} end
local left = 0
if A.step == 'begin' then
  left = 1
  if num('beginning') < round then
    set('beginning', round)
    write()
  end
elseif A.step == 'fetch' then
  -- Where a filter knows the ids, the records lie apart.
  local some = call('LPOP', P .. ':z', MANY) or {}
  if #some > 0 then
    for _, both in ipairs(some) do put(string.sub(both, 1, 8), string.sub(both, 9)) end
    write()
  end
  left = call('LLEN', P .. ':z')
elseif A.step == 'sort' then
  fetch(A.ids)
  for _, id in ipairs(A.ids) do
    local record = record_of(id)
    if record and string.byte(record, 1) == DONE then
      begin()
      local number = struct.unpack('<I4', record, 13)
      call('ZADD', P .. ':a:' .. number, digits(place_of(record)), id)
    end
  end
elseif A.step == 'requeue' then
  local ids, hosts_of = {}, {}
  for _, name in ipairs(A.hosts) do
    local host = host_of(name)
    local key = P .. ':a:' .. host.number
    if #ids < MANY then
      local some = call('ZRANGE', key, 0, MANY - #ids - 1)
      if #some > 0 then
        begin()
        call('ZREM', key, unpack(some))
        for _, id in ipairs(some) do
          ids[#ids + 1] = id
          hosts_of[id] = host
        end
      end
    else
      break
    end
  end
  left = #ids
  fetch(ids)
  for _, id in ipairs(ids) do
    local host = hosts_of[id]
    local record = record_of(id)
    if record and string.byte(record, 1) == DONE then
      -- In order of discovery, whatever came first then: rank 127 is priority 0.
      record = plain(record)
      put(id, string.char(WAITING) .. string.sub(record, 2, 3) .. string.char(127)
        .. string.sub(record, 5, 5) .. '\0\0' .. string.sub(record, 8))
      enqueue(host, 127, id)
      host.done = host.done - 1
      bump('done', -1)
      local validator = call('HGET', P .. ':y', id)
      if validator then
        call('HSET', P .. ':v', id, validator)
        call('HDEL', P .. ':y', id)
      else
        call('HDEL', P .. ':v', id)
      end
    end
  end
  if #ids > 0 then write() end
elseif A.step == 'end' then
  begin()
  for _, name in ipairs(call('HKEYS', B)) do
    if string.sub(name, 1, 2) == 'o:' then call('HDEL', B, name) end
  end
  set('pages', 0)
  set('allowed', 0)
  set('back', 0)
  set('round', round)
  write()
end
return {digits(version), left}
