-- Take in seeds, and what other partitions have to tell. Of what it is told twice it takes in once.

local doubtful = {}
local new_seeds = 0

local function seed(link, at, sure)
  local id = link[1]
  if R.exact then
    if record_of(id) then
      if depth_of(record_of(id)) > 0 then lower(id, 0, at) end
      return
    end
  elseif may_be_seen(id) then
    if record_of(id) then return end
    if not sure then
      doubtful[#doubtful + 1] = id
      return
    end
  end
  take_in(link, 0, 0, 65535, string.rep('\0', 8), at)
  new_seeds = new_seeds + 1
end

if R.exact then
  local ids = {}
  for i, message in ipairs(A.messages) do ids[i] = message[message[2] == 'L' and 4 or 3] end
  fetch(ids)
end
for _, message in ipairs(A.messages) do
  local kind = message[2]
  if kind == 'S' then
    seed({message[3], message[4], message[5], message[6], A.partition}, message[7], A.sure)
  elseif kind == 'L' then
    local _, _, depth, id, url, host, rank, hops, from, page, at = unpack(message)
    meet({id, url, host, rank, A.partition}, depth, hops, from, page, at)
  elseif kind == 'D' and record_of(message[3]) then
    if depth_of(record_of(message[3])) > message[4] then lower(message[3], message[4], message[5]) end
  end
end
if found_new > 0 or next(changed) or next(fresh) or #outgoing > 0 then write_intake() end
return {digits(version), new_seeds, doubtful, call('LLEN', P .. ':o'), warned and 1 or 0}
