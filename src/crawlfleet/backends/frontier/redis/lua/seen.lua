-- Whether an id is new, by Bloom filters that grow; upon `numbers`. R has the `capacity` and the
-- `error` of the first stage. Each further stage holds twice as much and errs half as often, so that
-- all together stay below twice the first's error.

local MOST_BITS = 4294967296 -- Redis has no longer strings

local function positions(high, low, bits, hashes, command)
  local arguments = {}
  local at, step = low % bits, high % bits
  for i = 1, hashes do
    if command == 'GET' then
      arguments[#arguments + 1] = 'GET'
      arguments[#arguments + 1] = 'u1'
      arguments[#arguments + 1] = digits(at)
    else
      arguments[#arguments + 1] = 'SET'
      arguments[#arguments + 1] = 'u1'
      arguments[#arguments + 1] = digits(at)
      arguments[#arguments + 1] = '1'
    end
    -- A step that grows: those of a constant one would meet again and again.
    at = (at + step) % bits
    step = (step + i) % bits
  end
  return arguments
end

local function stage_key(stage)
  return P .. ':f:' .. digits(stage)
end

local function grow()
  local stage = num('stages') + 1
  local error = R.error / 2 ^ (stage - 1)
  local capacity = R.capacity * 2 ^ (stage - 1)
  local bits = math.ceil(-capacity * math.log(error) / math.log(2) ^ 2)
  if bits > MOST_BITS then
    bits = MOST_BITS
    capacity = math.floor(-bits * math.log(2) ^ 2 / math.log(error))
  end
  set('stages', stage)
  set('capacity:' .. digits(stage), capacity)
  set('bits:' .. digits(stage), bits)
  set('hashes:' .. digits(stage), math.max(1, math.floor(-math.log(error) / math.log(2) + 0.5)))
  set('held:' .. digits(stage), 0)
end

-- What may have been added: false is certain.
local function may_be_seen(id)
  local high, low = struct.unpack('>I4I4', id)
  for stage = num('stages'), 1, -1 do
    local name = digits(stage)
    local arguments = positions(high, low, num('bits:' .. name), num('hashes:' .. name), 'GET')
    local found = call('BITFIELD', stage_key(stage), unpack(arguments))
    local all = true
    for i = 1, #found do
      if found[i] == 0 then
        all = false
        break
      end
    end
    if all then return true end
  end
  return false
end

local warned = false -- whether the last stage has just become nearly full

local function note_seen(id)
  begin()
  local stage = num('stages')
  if stage == 0 or num('held:' .. digits(stage)) >= num('capacity:' .. digits(stage)) then
    grow()
    stage = num('stages')
  end
  local name = digits(stage)
  local high, low = struct.unpack('>I4I4', id)
  local arguments = positions(high, low, num('bits:' .. name), num('hashes:' .. name), 'SET')
  call('BITFIELD', stage_key(stage), unpack(arguments))
  bump('held:' .. name, 1)
  if num('held:' .. name) == math.ceil(num('capacity:' .. name) * 0.9) then warned = true end
end

-- The chance that the next new id is taken for a known one.
local function present_error()
  local right = 1
  for stage = 1, num('stages') do
    local name = digits(stage)
    local hashes = num('hashes:' .. name)
    local full = 1 - math.exp(-hashes * num('held:' .. name) / num('bits:' .. name))
    right = right * (1 - full ^ hashes)
  end
  return 1 - right
end
